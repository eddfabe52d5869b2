//! Mistakes of functions in processes, and of the NICs before these.

use super::{edited, said};

#[test]
fn of_functions_in_processes() {
    let isolated = |process: &str| {
        let function =
            format!("count: {{function: counter, composition: process, process: {process}}}");
        said(&edited("count: {function: counter}", &function))
    };
    assert_eq!(isolated("{onFailure: hold, hold: 16, heartbeat: 10, checkpoint: 0}"), [""; 0]);
    assert_eq!(isolated("{start: elsewhere, tags: none, socket: /run/count.sock}"), [""; 0]);
    for (process, says) in [
        ("{heartbeat: 0}", "19:73: 0 is not within 1..60000"),
        (
            "{start: elsewhere}",
            "19:52: the configuration does not say where the ring is (say it with `socket`)",
        ),
        (
            "{tags: none}",
            "19:68: the node starts only functions that know NSH (write `start: elsewhere`, too)",
        ),
        (
            "{restart: {first: 20, longest: 10}}",
            "19:79: 20 ms are more than the longest pause, 10 ms",
        ),
        ("{socket: here}", "19:70: \"here\" is not the absolute path of a socket"),
    ] {
        assert_eq!(isolated(process), [says], "{process}");
    }
    assert_eq!(
        said(&edited(
            "count: {function: counter}",
            "count: {function: counter, process: {start: elsewhere, socket: /s, tags: none}}"
        )),
        ["19:76: a function without tags does not move (write `composition: process`)"]
    );
}

#[test]
fn of_functions_that_may_go_to_other_nodes() {
    let with = |more: &str| {
        let function = format!("count: {{function: counter, {more}}}");
        said(&edited("count: {function: counter}", &function))
    };
    let remote = "remote: {path: 10, port: core, to: '02:00:00:00:00:02'}";
    assert_eq!(with(remote), [""; 0]);
    assert_eq!(with(&format!("composition: thread, {remote}")), [""; 0]);
    assert_eq!(
        with(&format!("process: {{}}, {remote}")),
        ["19:43: the function has a process to go to (a process or another node, not both)"]
    );
}

#[test]
fn of_threads_that_the_node_chooses_for() {
    let with = |more: &str| {
        said(&edited(
            "count: {function: counter}",
            &format!("count: {{function: counter, {more}}}"),
        ))
    };
    assert_eq!(with("thread: auto"), [""; 0]);
    assert_eq!(with("composition: thread, thread: {auto: true, core: 1}"), [""; 0]);
    for (more, says) in [
        ("thread: self", "19:38: `auto` or a mapping is expected, not \"self\""),
        (
            "thread: {core: 1}",
            "19:30: the function stands on its worker's thread (write `composition: thread`)",
        ),
        (
            "thread: auto}\n  again: {function: counter, thread: {auto: true, stage: other}",
            "20:30: `count` may stand on the thread `thread`, not `other` (the node chooses for one \
             thread)",
        ),
    ] {
        assert_eq!(with(more), [says], "{more}");
    }
}

#[test]
fn of_virtual_functions() {
    let with = |nics: &str| said(&edited("ports:\n", &format!("nics: {nics}\nports:\n")));
    let one = |function: &str| {
        with(&format!("{{fast: {{device: eth0, virtualFunctions: {{{function}}}}}}}"))
    };
    assert_eq!(one("a: {mac: 02:00:00:00:01:00, trust: true, spoofCheck: false}"), [""; 0]);
    for (functions, says) in [
        ("", "5:29: 0 virtual functions are not within 1..256"),
        ("a: {mac: 03:00:00:00:01:00}", "5:57: this is not the MAC address of one station"),
        (
            "-a: {mac: 02:00:00:00:01:00}",
            "5:48: \"-a\" cannot be a name (a letter, then letters, digits, `_`, and `-` between them; 63 at most)",
        ),
        (
            "a: {mac: 02:00:00:00:01:00}, b: {mac: 02:00:00:00:01:00}",
            "5:86: `a` has this MAC address, too",
        ),
    ] {
        assert_eq!(one(functions), [says], "{functions}");
    }
    let virtual_functions = "virtualFunctions: {a: {mac: 02:00:00:00:01:00}}";
    assert_eq!(
        with(&format!("{{fast: {{device: ../eth0, {virtual_functions}}}}}")),
        ["5:23: \"../eth0\" is not the name of a device (a network interface, or a PCI address \
          such as 0000:01:00.0)"]
    );
    assert_eq!(
        with(&format!(
            "{{a: {{device: eth0, {virtual_functions}}}, b: {{device: eth1, {}}}}}",
            virtual_functions.replace("01:00", "01:01")
        )),
        ["5:113: `a` has a virtual function `a`, too (devices name it `vf:NAME`: rename one)"]
    );
    assert_eq!(
        said(&edited("device: ring:access", "device: vf:acces")),
        ["7:13: there is no virtual function `acces`"]
    );
}

#[test]
fn of_software_vf() {
    let with = |nics: &str| said(&edited("ports:\n", &format!("nics: {nics}\nports:\n")));
    let soft = |software: &str, function: &str| {
        with(&format!("{{s: {{software: {software}, virtualFunctions: {{a: {function}}}}}}}"))
    };
    let (here, right) = ("{sockets: /run/s}", "{mac: 02:00:00:00:01:00, rate: 1000}");
    assert_eq!(soft("{sockets: /run/s, core: 3, polling: busy, start: elsewhere}", right), [""; 0]);
    for (software, function, says) in [
        (
            here,
            "{mac: 02:00:00:00:01:00}",
            "5:60: it has no share of the switch (write `rate`, in frames per second)",
        ),
        (here, "{mac: 02:00:00:00:01:00, rate: 0}", "5:94: 0 is not within 1..100000000"),
        ("{sockets: here}", right, "5:32: \"here\" is not the absolute path of a folder"),
        ("{sockets: /run/s, core: 1024}", right, "5:46: 1024 is not within 0..1023"),
    ] {
        assert_eq!(soft(software, function), [says], "{software} {function}");
    }
    let long = format!("{{sockets: /{}}}", "x".repeat(95));
    assert_eq!(
        soft(&long, right),
        ["5:32: 109 octets are too many for the path of a socket in it (at most 107)"]
    );
    let functions = format!("virtualFunctions: {{a: {right}}}");
    assert_eq!(
        with(&format!("{{s: {{device: eth0, software: {here}, {functions}}}}}")),
        ["5:8: it is a NIC and there is none (leave out `device` or `software`)"]
    );
    assert_eq!(
        with(&format!("{{s: {{{functions}}}}}")),
        [
            "5:8: the configuration does not say which NIC it is (write `device`, or `software` where there is none)"
        ]
    );
    assert_eq!(
        with(&format!("{{s: {{device: eth0, {functions}}}}}")),
        [
            "5:79: the switch of a NIC gives no shares in frames (leave it out; it is for `software`)"
        ]
    );
}

#[test]
fn of_functions_behind_a_nic() {
    let behind = |vf: &str, process: &str| {
        let function = format!("count: {{function: counter, composition: vf, vf: {vf}{process}}}");
        said(&edited("count: {function: counter}", &function))
    };
    let mac = "02:00:00:00:01:00";
    let right =
        format!("{{port: access, device: '0000:02:10.0', transmit: net_null1, mac: {mac}}}");
    assert_eq!(behind(&right, ", process: {onFailure: bypass}"), [""; 0]);
    for (vf, says) in [
        (
            "{port: acces, device: net_null0, mac: MAC}",
            "19:58: there is no port `acces` (did you mean `access`?)",
        ),
        (
            "{port: access, device: net_null0}",
            "19:47: the configuration does not say which MAC address the function has (write `mac`, or name a virtual \
             function of `nics` as its device)",
        ),
        (
            "{port: access, device: 'vf:count', mac: MAC}",
            "19:74: there is no virtual function `count`",
        ),
        (
            "{port: access, device: ring:core, mac: MAC}",
            "19:74: ring:core is the port `core` of the node",
        ),
        (
            "{port: access, device: net_null0, mac: MAC, timeout: 0}",
            "19:118: 0 is not within 1..60000",
        ),
        (
            "{port: access, device: net_null0, mac: MAC, descriptors: 2048}",
            "19:122: 2048 is not within 32..1024",
        ),
    ] {
        assert_eq!(behind(&vf.replace("MAC", mac), ""), [says], "{vf}");
    }
    assert_eq!(
        said(&edited("function: counter}", "function: counter, composition: vf}")),
        [
            "19:3: the configuration does not say where the function is (write `vf: {port: …, device: …}`)"
        ]
    );
    assert_eq!(
        said(&edited("function: counter}", &format!("function: counter, vf: {right}}}"))),
        ["19:30: the function is at no virtual function (write `composition: vf`)"]
    );
}

#[test]
fn of_what_a_nic_keeps_and_drops() {
    let nics = |spoof_check: bool| {
        format!(
            "nics: {{fast: {{device: eth0, virtualFunctions: {{a: {{mac: 02:00:00:00:01:00}}, \
             b: {{mac: 02:00:00:00:01:01}}, c: {{mac: 02:00:00:00:01:02, spoofCheck: \
             {spoof_check}}}}}}}}}\nports:"
        )
    };
    let at = |spoof_check, rest: &[(&str, &str)]| {
        let mut file = edited("ports:", &nics(spoof_check));
        for (from, to) in rest {
            file = file.replacen(from, to, 1);
        }
        said(&file)
    };
    let function = "count: {function: counter, composition: vf, vf: {port: access, \
                    device: 'vf:b', transmit: 'vf:c'}}";
    let counted = ("count: {function: counter}", function);
    assert_eq!(at(false, &[counted]), [""; 0]);
    assert_eq!(
        at(true, &[counted]),
        [
            "20:92: the NIC drops what `c` sends for another MAC address (give it `spoofCheck: false` \
          under `nics`)"
        ]
    );
    // Two receive queues, and a transmit queue for each worker at the NIC.
    let small = ("limits: {users: 2000}", "limits: {users: 2000}\nmemory: {packets: 3072}");
    assert_eq!(at(true, &[small]), [""; 0]);
    assert_eq!(
        at(true, &[small, ("device: ring:access", "device: vf:a")]),
        ["49:19: the queues of the ports alone hold 4096 packets (more packets here, or fewer \
          descriptors there)"]
    );
    // One of each at a switch in software, however many workers there are.
    let software = |packets: u32| {
        let nics = "nics: {soft: {software: {sockets: /run/soft}, virtualFunctions: {a: {mac: \
                    02:00:00:00:01:00, rate: 1000}}}}\nports:";
        let memory = format!("limits: {{users: 2000}}\nmemory: {{packets: {packets}}}");
        let file = edited("ports:", nics).replacen("device: ring:access", "device: vf:a", 1);
        said(&file.replacen("limits: {users: 2000}", &memory, 1))
    };
    assert_eq!(software(3073), [""; 0]);
    let few = software(3072);
    assert!(few[0].contains("queues of the ports alone hold 3072 packets"), "{few:?}");
}
