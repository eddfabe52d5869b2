//! `weft run` under a service manager: what that is told, and how the node ends by a fault.

use std::os::unix::net::UnixDatagram;

use crate::common::{PATIENCE, Running, TestFolder, node};

#[test]
fn a_service_manager_hears_that_a_node_is_ready_alive_and_stopping() {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_null0,no-rx=1", "net_null1,no-rx=1"));
    let manager = UnixDatagram::bind(place.path("notify")).expect("the folder is ours");
    manager.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let heard = || {
        let mut text = [0; 64];
        let length = manager.recv(&mut text).expect("the node says something");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = place.weft(&["run", "node.yaml"]);
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "100000");
    let running = Running::start(command);
    assert_eq!(heard(), "READY=1");
    // Its watchdog looks, and finds all well.
    assert_eq!([heard(), heard()], ["WATCHDOG=1", "WATCHDOG=1"]);
    running.signal("TERM");
    while heard() != "STOPPING=1" {}
    running.ended().succeeded();
}

/// The handler of `weft run`; a fault inside a function is tested in the crate `weft-node`.
#[test]
fn fault_55_a_fault_leaves_a_line_and_ends_the_process_by_its_signal() {
    for (signal, name) in [("SEGV", "SIGSEGV, a memory fault"), ("BUS", "SIGBUS, a memory fault")] {
        let place = TestFolder::new();
        place.write("node.yaml", node("a", "net_null0,no-rx=1", "net_null1,no-rx=1"));
        let running = place.start(&["node.yaml"]);
        running.signal(signal);
        let ended = running.ended();
        assert_eq!(ended.code, None, "{ended:?}");
        let said = format!("weft: {name} sent by a process, in the thread ");
        assert!(ended.err.contains(&said), "{ended:?}");
        assert!(ended.err.contains(": the process ends"), "{ended:?}");
    }
}
