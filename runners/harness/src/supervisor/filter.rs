//! System calls that tools have no use for, and that Landlock, or this kernel's, does not know: they
//! change the limits and the place in the queue of other processes of the same user, the runner
//! among them, listen to the kernel's own messages, give rights in a namespace of the caller's own, reach keys
//! that belong to whoever started all this, or speak to the machine's own host.
//!
//! In a Pod the container's filter comes first and holds back what leads out of the container; this one
//! keeps what is inside apart. On one machine there is no other.

use std::io;

use rustix::process::Pid;

/// Of the kernel's numbers for architectures: which calls the numbers below mean.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Calls from this number on are those of another interface of x86, with 32-bit pointers.
const OTHER_INTERFACE: u32 = 0x4000_0000;

/// A call that is not carried out when all of this holds for its arguments.
struct Refused {
    call: libc::c_long,
    when: Vec<(u32, Test)>,
    /// What the caller is told. 0: that it was.
    error: i32,
}

#[derive(Clone, Copy)]
enum Test {
    Is(u32),
    IsNot(u32),
    UpTo(u32),
    From(u32),
    /// Of the bits of the first, exactly those of the second are set.
    Bits(u32, u32),
}

use Test::{Bits, From, Is, IsNot, UpTo};

impl Test {
    /// Of the program that carries it out.
    fn steps(self) -> usize {
        match self {
            Is(_) | IsNot(_) | UpTo(_) | From(_) => 2,
            Bits(..) => 3,
        }
    }
}

/// What the kernel's Landlock, if any, does not hold, so that the filter must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LandlockGaps {
    /// Signals to processes outside, and ports of others.
    pub(super) signals: bool,
    /// Files that are truncated without being opened for writing.
    pub(super) truncation: bool,
}

/// Holds this process and all that come of it to the filter. No new privileges must be possible
/// any more.
///
/// # Errors
///
/// When the kernel refuses it, or when signals are to be held and there is no supervisor any more.
pub(super) fn filter(lacks: LandlockGaps, supervisor: Option<Pid>) -> io::Result<()> {
    apply(&mut program(&refused(lacks, supervisor)?))
}

fn refused(lacks: LandlockGaps, supervisor: Option<Pid>) -> io::Result<Vec<Refused>> {
    let mut refused = everywhere();
    if lacks.signals {
        let supervisor = supervisor.ok_or_else(|| io::Error::other("the supervisor has ended"))?;
        refused.extend(of_others(supervisor));
    }
    if lacks.truncation {
        refused.extend(truncating());
    }
    Ok(refused)
}

fn rule<const N: usize>(call: libc::c_long, when: [(u32, Test); N]) -> Refused {
    Refused { call, when: when.to_vec(), error: libc::EPERM }
}

/// A call that is not there. What cannot be looked into is not: programs do without.
fn absent(call: libc::c_long) -> Refused {
    Refused { call, when: Vec::new(), error: libc::ENOSYS }
}

/// Sockets that speak neither over a network nor within the sandbox: those to the machine's own host know no
/// namespace, and each other kind is a part of the kernel that no tool needs.
fn other_families() -> Refused {
    let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    Refused {
        call: libc::SYS_socket,
        when: known.into_iter().map(|family| (0, IsNot(family as u32))).collect(),
        error: libc::EAFNOSUPPORT,
    }
}

fn everywhere() -> Vec<Refused> {
    // Numbers of processes are 0 for the caller itself.
    let own_users = libc::CLONE_NEWUSER as u32;
    vec![
        rule(libc::SYS_prlimit64, [(0, IsNot(0))]),
        rule(libc::SYS_setpriority, [(1, IsNot(0))]),
        rule(libc::SYS_setpriority, [(0, Is(libc::PRIO_USER))]),
        rule(libc::SYS_ioprio_set, [(1, IsNot(0))]),
        rule(libc::SYS_sched_setscheduler, [(0, IsNot(0))]),
        rule(libc::SYS_sched_setparam, [(0, IsNot(0))]),
        rule(libc::SYS_sched_setattr, [(0, IsNot(0))]),
        rule(libc::SYS_sched_setaffinity, [(0, IsNot(0))]),
        other_families(),
        // What is left of it are the routes and addresses that programs ask for.
        rule(
            libc::SYS_socket,
            [(0, Is(libc::AF_NETLINK as u32)), (2, IsNot(libc::NETLINK_ROUTE as u32))],
        ),
        // Whoever is root of a user namespace may ask the kernel for what only root may. Its flags come to
        // `clone3` in memory.
        rule(libc::SYS_unshare, [(0, Bits(own_users, own_users))]),
        rule(libc::SYS_clone, [(0, Bits(own_users, own_users))]),
        absent(libc::SYS_clone3),
        // The ring of keys of a session goes along into every sandbox.
        rule(libc::SYS_add_key, []),
        rule(libc::SYS_request_key, []),
        rule(libc::SYS_keyctl, []),
        // Whether the kernel lets everybody do these is a setting of each machine.
        rule(libc::SYS_syslog, []),
        rule(libc::SYS_bpf, []),
        rule(libc::SYS_perf_event_open, []),
        rule(libc::SYS_userfaultfd, []),
        // It makes sockets and opens files by messages, past every filter.
        absent(libc::SYS_io_uring_setup),
    ]
}

/// Signals go only to who was started after the supervisor, as the tool was; and a port that the
/// runner listens on cannot be had a second time, for an address of its own, as gVisor allows it
/// when both want to use addresses again.
fn of_others(supervisor: Pid) -> Vec<Refused> {
    let last = supervisor.as_raw_nonzero().get().unsigned_abs();
    let again = |option: libc::c_int| Refused {
        call: libc::SYS_setsockopt,
        when: vec![(1, Is(libc::SOL_SOCKET as u32)), (2, Is(option as u32))],
        error: 0,
    };
    vec![
        rule(libc::SYS_kill, [(0, IsNot(0)), (0, UpTo(last))]),
        // Groups of processes are negative; -1 is everybody.
        rule(libc::SYS_kill, [(0, From(last.wrapping_neg()))]),
        rule(libc::SYS_tgkill, [(0, UpTo(last))]),
        rule(libc::SYS_tkill, []),
        rule(libc::SYS_rt_sigqueueinfo, [(0, UpTo(last))]),
        rule(libc::SYS_rt_tgsigqueueinfo, [(0, UpTo(last))]),
        rule(libc::SYS_pidfd_open, [(0, UpTo(last))]),
        rule(libc::SYS_fcntl, [(1, Is(libc::F_SETOWN as u32))]),
        rule(libc::SYS_fcntl, [(1, Is(F_SETOWN_EX))]),
        again(libc::SO_REUSEADDR),
        again(libc::SO_REUSEPORT),
    ]
}

/// An old Landlock asks who opens a file for writing, and not who truncates one that it opens for
/// reading, or by its path.
fn truncating() -> Vec<Refused> {
    const MODE: u32 = libc::O_ACCMODE as u32;
    const TRUNCATE: u32 = libc::O_TRUNC as u32;
    // The mode in which both bits are set neither reads nor writes.
    let modes = [libc::O_RDONLY as u32, MODE].map(|mode| Bits(MODE | TRUNCATE, mode | TRUNCATE));
    let mut refused = vec![rule(libc::SYS_truncate, []), absent(libc::SYS_openat2)];
    for mode in modes {
        refused.push(rule(libc::SYS_openat, [(2, mode)]));
        #[cfg(target_arch = "x86_64")]
        refused.push(rule(libc::SYS_open, [(1, mode)]));
    }
    refused
}

/// Of Linux's `fcntl.h`.
const F_SETOWN_EX: u32 = 15;

fn program(refused: &[Refused]) -> Vec<libc::sock_filter> {
    /// Where the kernel shows the filter the call's number, its architecture, and its arguments.
    const CALL: u32 = 0;
    const ARCH: u32 = 4;
    const ARGUMENTS: u32 = 16;
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let equal = |value, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let from = |value, yes, no| step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, yes, no, value);
    let above = |value, yes, no| step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, yes, no, value);
    let answer = |with| step(libc::BPF_RET | libc::BPF_K, 0, 0, with);
    let error = |number: i32| libc::SECCOMP_RET_ERRNO | number as u32;

    let mut program = vec![
        load(ARCH),
        equal(ARCHITECTURE, 1, 0),
        answer(error(libc::ENOSYS)),
        load(CALL),
        from(OTHER_INTERFACE, 0, 1),
        answer(error(libc::ENOSYS)),
    ];
    for Refused { call, when, error: told } in refused {
        // The steps of each test, and the answer.
        let rest = |behind: usize| {
            (when[behind..].iter().map(|(_, test)| test.steps()).sum::<usize>() + 1) as u8
        };
        program.extend([load(CALL), equal(*call as u32, 0, rest(0))]);
        for (place, (argument, test)) in when.iter().enumerate() {
            // Both orders of bytes of these architectures have the lower half first.
            program.push(load(ARGUMENTS + 8 * argument));
            let out = rest(place + 1);
            if let Bits(mask, _) = *test {
                program.push(step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask));
            }
            program.push(match *test {
                Is(value) | Bits(_, value) => equal(value, 0, out),
                IsNot(value) => equal(value, out, 0),
                UpTo(value) => above(value, out, 0),
                From(value) => from(value, 0, out),
            });
        }
        program.push(answer(error(*told)));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

fn step(code: u32, yes: u8, no: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k: value }
}

#[expect(unsafe_code, reason = "a filter of system calls has no safe wrapper")]
fn apply(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program before the call returns, and checks it; what it points
    // to lives until then.
    let done = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&whole))
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Refuses whole calls to this thread, as another kernel or another container would.
#[cfg(test)]
pub(super) fn refuse(calls: &[libc::c_long]) -> io::Result<()> {
    let rules: Vec<Refused> = calls.iter().map(|call| rule(*call, [])).collect();
    apply(&mut program(&rules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
    use rustix::io::Errno;
    use rustix::process::test_kill_process;

    /// Carries the program out as the kernel does, for a call of this architecture.
    fn answer(program: &[libc::sock_filter], call: libc::c_long, arguments: [u32; 3]) -> u32 {
        let (mut place, mut value) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[place];
            place += 1;
            let code = u32::from(code);
            let jumps = match code & 0xf0 {
                libc::BPF_JEQ => value == k,
                libc::BPF_JGE => value >= k,
                _ => value > k,
            };
            match code & 0x07 {
                libc::BPF_RET => return k,
                libc::BPF_LD => {
                    value = match k {
                        0 => call as u32,
                        4 => ARCHITECTURE,
                        offset => arguments[(offset as usize - 16) / 8],
                    }
                }
                libc::BPF_ALU => value &= k,
                _ => place += usize::from(if jumps { jt } else { jf }),
            }
        }
    }

    #[test]
    fn what_reaches_others_is_refused_and_the_rest_goes_on() {
        let lacks = LandlockGaps { signals: true, truncation: false };
        let program = program(&refused(lacks, Pid::from_raw(20)).unwrap());
        let check = |call, arguments, expected| {
            assert_eq!(answer(&program, call, arguments), expected, "{call} {arguments:?}");
        };
        let (done, refused) =
            (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
        let ignored = libc::SECCOMP_RET_ERRNO;
        check(libc::SYS_getpid, [0; 3], done);
        check(libc::SYS_prlimit64, [0, 7, 0], done);
        check(libc::SYS_prlimit64, [1, 7, 0], refused);
        check(libc::SYS_setpriority, [0, 0, 19], done);
        check(libc::SYS_setpriority, [2, 0, 19], refused);
        check(libc::SYS_socket, [16, 3, 0], done);
        check(libc::SYS_socket, [16, 3, 15], refused);
        check(libc::SYS_socket, [2, 1, 6], done);
        check(libc::SYS_socket, [1, 1, 0], done);
        for family in [libc::AF_VSOCK, libc::AF_ALG, libc::AF_PACKET] {
            let unknown = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
            check(libc::SYS_socket, [family as u32, 1, 0], unknown);
        }
        check(libc::SYS_kill, [0, 9, 0], done);
        check(libc::SYS_kill, [21, 9, 0], done);
        check(libc::SYS_kill, [21_u32.wrapping_neg(), 9, 0], done);
        for process in [1, 20, 1_u32.wrapping_neg(), 20_u32.wrapping_neg()] {
            check(libc::SYS_kill, [process, 9, 0], refused);
        }
        check(libc::SYS_tkill, [50, 9, 0], refused);
        check(libc::SYS_tgkill, [21, 22, 9], done);
        let (users, absent) = (0x1000_0000, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            check(call, [users | 0x11, 0, 0], refused);
            check(call, [17, 0, 0], done);
        }
        let keys = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
        let kernel =
            [libc::SYS_syslog, libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd];
        for call in keys.into_iter().chain(kernel) {
            check(call, [1, 0, 0], refused);
        }
        check(libc::SYS_clone3, [0; 3], absent);
        check(libc::SYS_io_uring_setup, [4, 0, 0], absent);
        check(libc::SYS_setsockopt, [5, 1, 2], ignored);
        check(libc::SYS_setsockopt, [5, 6, 2], done);
    }

    /// By the kernel, in a thread of its own that lives under the filter.
    #[test]
    fn what_an_older_landlock_does_not_know_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        std::fs::write(&path, "whole").unwrap();
        let held = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            let lacks = LandlockGaps { signals: true, truncation: true };
            filter(lacks, Some(rustix::process::getpid())).unwrap();
            let refused = |found: rustix::io::Result<_>| assert_eq!(found.err(), Some(Errno::PERM));
            refused(test_kill_process(rustix::process::getpid()));
            for mode in [OFlags::RDONLY, OFlags::from_bits_retain(3)] {
                refused(open(&path, mode | OFlags::TRUNC, Mode::empty()).map(drop));
            }
            let absent = openat2(CWD, &path, OFlags::RDONLY, Mode::empty(), ResolveFlags::empty());
            assert_eq!(absent.err(), Some(Errno::NOSYS));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(3).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "who");
            std::fs::write(&path, "new").unwrap();
        });
        held.join().unwrap();
        let program = program(&truncating());
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        assert_eq!(answer(&program, libc::SYS_truncate, [0; 3]), refused);
    }
}
