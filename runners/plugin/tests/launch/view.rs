//! What is seen in a sandbox, and what may be changed.

use std::fs;

use crate::bench::{Bench, Who};

#[test]
fn nothing_of_the_machine_is_seen_but_its_programs() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let names = bench.says("ls /");
        let system = ["bin", "lib", "lib32", "lib64", "libx32", "sbin"];
        let others: Vec<&str> = names.lines().filter(|name| !system.contains(name)).collect();
        assert_eq!(others, ["dev", "etc", "famulus", "given", "memory", "own", "proc", "usr"]);
        assert_eq!(
            bench.says("ls /dev"),
            "fd\nfull\nnull\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero"
        );
        let users = bench.says("cat /etc/passwd");
        assert_eq!(users.lines().count(), 2, "{users}");
        let kept = ["shadow", "gitconfig", "npmrc", "pip.conf", "sudoers", "ssh", "ssl/private"];
        for name in kept {
            assert!(!bench.shell(&format!("test -e /etc/{name}")).status.success(), "{name}");
        }
        assert_eq!(bench.says("hostname"), "sandbox");
        assert_eq!(bench.says("id -u; id -g"), format!("{0}\n{0}", who.inside()));
        // Two words of the shell's own and those that the order names.
        assert_eq!(bench.says("env | sort"), "PATH=/usr/bin:/usr/sbin:/bin:/sbin\nPWD=/");
    }
}

#[test]
fn no_process_of_the_machine_is_seen() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let seen = bench.python(
            "import os\nprint([p for p in os.listdir('/proc') if p.isdigit()], os.getpid(), os.getppid())",
        );
        assert_eq!(seen, "['1'] 1 0", "{who:?}");
        let order = bench.says("cat /proc/1/cmdline | tr '\\0' ' '");
        assert!(order.starts_with("/bin/sh -c"), "{order}");
    }
}

#[test]
fn it_has_no_right_and_gets_none() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let rights = bench.says("grep -E 'Cap|NoNewPrivs' /proc/self/status | tr -d '\\t'");
        let none = "0000000000000000";
        let expected: Vec<String> =
            ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{none}")).into();
        assert_eq!(rights, format!("{}\nNoNewPrivs:1", expected.join("\n")), "{who:?}");
        for attempt in [
            "mount -o remount,rw /usr",
            "mount -t tmpfs none /own",
            "umount /usr",
            "umount -l /own",
            "mount --bind /given /own",
            "unshare -m true",
            "unshare -Ur mount -o remount,bind,rw /usr",
            "unshare -Urm umount /given",
            "unshare -Urm mount -o remount,bind,rw /given",
            "chroot / true",
            "hostname other",
            "ip link set lo down",
            "mknod /own/disk b 8 0",
            "nice -n -5 true && test $(nice) -lt 0",
            "chown 0 /own",
        ] {
            let (program, _) = attempt.split_once(' ').unwrap();
            bench.says(&format!("command -v {program}"));
            let output = bench.shell(attempt);
            assert!(!output.status.success(), "{who:?}: {attempt}");
        }
    }
}

#[test]
fn only_what_is_named_to_be_written_is() {
    for who in Who::all() {
        let bench = Bench::new(who);
        for path in ["/x", "/usr/x", "/etc/x", "/given/x", "/dev/x", "/proc/x", "/famulus/x"] {
            assert!(!bench.shell(&format!("echo x > {path}")).status.success(), "{who:?}: {path}");
        }
        for path in ["/etc/passwd", "/given/file", "/famulus/runner", "/proc/sys/kernel/hostname"] {
            assert!(!bench.shell(&format!("echo x > {path}")).status.success(), "{who:?}: {path}");
        }
        bench.says("echo own > /own/kept && echo m > /memory/m && cat /memory/m");
        assert_eq!(fs::read_to_string(bench.path("own/kept")).unwrap(), "own\n");
        assert_eq!(fs::read_to_string(bench.path("given/file")).unwrap(), "given");
        // Nothing of the root is left outside.
        assert_eq!(fs::read_dir(bench.path("root")).unwrap().count(), 0);
        // What one sandbox had in memory is not in the next.
        assert!(!bench.shell("test -e /memory/m").status.success());
    }
}

/// A program whose file gives its owner's rights to whoever executes it, left there by another sandbox.
#[test]
fn a_file_gives_nobody_its_owners_rights() {
    for who in Who::all() {
        let bench = Bench::new(who);
        bench.says("cp /usr/bin/id /own/id && chmod 6755 /own/id");
        assert_eq!(bench.says("/own/id -u"), who.inside().to_string());
        let flags = bench.says("grep -E ' (/own|/memory|/usr|/given|/) ' /proc/self/mountinfo");
        for line in flags.lines() {
            let options = line.split(' ').nth(5).unwrap();
            assert!(options.contains("nosuid") && options.contains("nodev"), "{line}");
        }
        assert!(flags.lines().count() >= 5, "{flags}");
    }
}
