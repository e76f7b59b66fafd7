//! Where a part of a sandbox cannot be had, nothing runs, and what is missing is said with the remedy.

use std::process::Child;

use famulus_protocol::launch::{NOT_LAUNCHED, Place};

use crate::bench::{Bench, Who, finished};

/// What it says instead of running the program, which would print `ran`.
fn refused(child: Child) -> String {
    let output = finished(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(NOT_LAUNCHED.into()), "{said}");
    assert!(output.stdout.is_empty(), "it ran");
    said
}

const RUN: [&str; 2] = ["/bin/echo", "ran"];

/// As in a container that was given no more rights than usual.
#[test]
fn root_without_the_right_to_make_namespaces_runs_nothing() {
    for who in Who::all().into_iter().filter(|who| *who == Who::Root) {
        let bench = Bench::new(who);
        let less = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
        let said = refused(bench.start_by(&less, &RUN));
        assert!(said.contains("CAP_SYS_ADMIN"), "{said}");
    }
}

/// As on a machine whose owner, or distribution, allows no user namespaces.
#[test]
fn an_ordinary_user_without_user_namespaces_runs_nothing() {
    // Within a namespace that lets nobody make another.
    let none = r#"echo 0 > /proc/sys/user/max_user_namespaces && exec "$@""#;
    let own = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", none, "sh"];
    let bench = Bench::new(Who::Ordinary);
    let said = refused(bench.start_by(&own, &RUN));
    assert!(said.contains("no user namespace can be made"), "{said}");
    assert!(said.contains("user.max_user_namespaces"), "{said}");
}

#[test]
fn an_order_that_asks_for_what_must_not_be_is_refused() {
    for who in Who::all() {
        let check = |change: &dyn Fn(&mut Bench), part: &str| {
            let mut bench = Bench::new(who);
            change(&mut bench);
            let said = refused(bench.start(&RUN));
            assert!(said.contains(part), "{who:?}: {said}");
        };
        let place = |to: &str| Place { from: None, to: to.into(), writable: true };
        check(&|bench| bench.order.places.push(place("relative")), "no path of a sandbox");
        check(&|bench| bench.order.places.push(place("/own/../..")), "no path of a sandbox");
        check(&|bench| bench.order.places.push(place("/")), "in another place");
        for own in ["/dev/disk", "/proc", "/etc/ssh", "/usr/local", "/bin"] {
            check(&|bench| bench.order.places.push(place(own)), "belongs to the sandbox itself");
        }
        // A link that a plugin left in what it may write would lead root elsewhere.
        check(&|bench| bench.order.places.push(place("/own/within")), "lies in another place");
        check(&|bench| bench.order.places.push(place("/own")), "lies in another place");
        let absent = Place { from: Some("/absent".into()), ..place("/there") };
        check(&|bench| bench.order.places.push(absent.clone()), "/absent");
        let user = |user| move |bench: &mut Bench| bench.order.user = user;
        match who {
            Who::Root => {
                check(&user(None), "nothing in a sandbox is root's");
                check(&user(Some(0)), "nothing in a sandbox is root's");
            }
            Who::Ordinary => check(&user(Some(7)), "only root may become another"),
        }
        let bench = Bench::new(who);
        let said = refused(bench.start(&["/absent/program"]));
        assert!(said.contains("/absent/program cannot be executed"), "{said}");
    }
}
