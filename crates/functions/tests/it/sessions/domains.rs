//! Packets of applications that are known by domain names.

use super::*;

/// A response of a name server: the name leads to the address for so many seconds.
fn answer(name: &str, address: &str, seconds: u32) -> Vec<u8> {
    let mut octets = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    for label in name.split('.') {
        octets.push(label.len() as u8);
        octets.extend(label.bytes());
    }
    let (kind, data) = match address.parse().expect("an address") {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (28, address.octets().to_vec()),
    };
    octets.extend([0, 0, kind, 0, 1, 0xc0, 12, 0, kind, 0, 1]);
    octets.extend(seconds.to_be_bytes());
    octets.extend((data.len() as u16).to_be_bytes());
    octets.extend(data);
    octets
}

/// What a TLS client says first to a server of that name.
fn hello(name: &str) -> Vec<u8> {
    let sized = |width: usize, content: &[u8]| {
        [&(content.len() as u32).to_be_bytes()[4 - width..], content].concat()
    };
    let entry = [&[0][..], &sized(2, name.as_bytes())].concat();
    let named = [&[0, 0][..], &sized(2, &sized(2, &entry))].concat();
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let body = [fixed, sized(2, &named)].concat();
    [&[22, 3, 1][..], &sized(2, &[&[1][..], &sized(3, &body)].concat())].concat()
}

fn with_domain(domain: &str) -> Rig {
    rig(&json!({
        "pdrs": [
            {"id": 1, "precedence": 9, "source": "access", "local": {"teid": 1}, "removal": "gtpu", "far": 1},
            {"id": 2, "precedence": 9, "source": "core", "far": 1},
            {"id": 3, "precedence": 1, "source": "access", "local": {"teid": 1}, "removal": "gtpu", "far": 1,
             "filters": [{"domain": domain}]},
            {"id": 4, "precedence": 1, "source": "core", "far": 1, "filters": [{"domain": domain}]},
        ],
        "fars": [{"id": 1, "action": "forward", "forward": {"interface": "core"}}],
    }))
}

fn pdr(rig: &mut Rig, spec: &Spec, uplink: bool) -> u32 {
    let seen = match uplink {
        true => {
            let (frame, noted) = tunnelled(spec, 1, None);
            rig.send_bytes(&frame, noted)
        }
        false => rig.send(spec),
    };
    assert_eq!(seen.dropped, None);
    rig.tag("pdr", &seen.metadata)
}

#[test]
fn an_answer_of_dns_tells_the_servers_of_an_application() {
    for (user, server, address) in [
        (USER, "198.51.100.53", "192.0.2.80"),
        ("2001:db8::1", "2001:db8:53::53", "2001:db8:80::80"),
    ] {
        let mut rig = with_domain("example.com");
        let up = |to: &str| Spec::tcp(b"").between(user, to);
        let down = |from: &str, payload: &[u8]| {
            Spec { source_port: 53, ..Spec::udp(payload) }.between(from, user)
        };
        assert_eq!(pdr(&mut rig, &up(address), true), 1);
        // Another domain, and a port that is none of a name server's.
        assert_eq!(pdr(&mut rig, &down(server, &answer("example.net", address, 60)), false), 2);
        let other = Spec { source_port: 54, ..down(server, &answer("example.com", address, 60)) };
        assert_eq!(pdr(&mut rig, &other, false), 2);
        assert_eq!(pdr(&mut rig, &up(address), true), 1);
        assert_eq!(pdr(&mut rig, &down(server, &answer("WWW.example.com", address, 60)), false), 2);
        assert_eq!(pdr(&mut rig, &up(address), true), 3);
        assert_eq!(pdr(&mut rig, &Spec::udp(b"x").between(address, user), false), 4);
        assert_eq!(pdr(&mut rig, &up(server), true), 1);
        // It ends, at the earliest after five minutes.
        rig.now += 299_000_000_000;
        assert_eq!(pdr(&mut rig, &up(address), true), 3);
        rig.now += 2_000_000_000;
        assert_eq!(pdr(&mut rig, &up(address), true), 1);
    }
}

#[test]
fn a_tls_client_names_the_server_of_its_connection() {
    let mut rig = with_domain("*.example.com");
    let server = "192.0.2.80";
    let segment = |port: u16, payload: &[u8]| {
        Spec { source_port: port, destination_port: 443, ..Spec::tcp(payload) }
            .between(USER, server)
    };
    let back = Spec { source_port: 443, destination_port: 7001, ..Spec::tcp(b"y") };
    let back = back.between(server, USER);
    assert_eq!(pdr(&mut rig, &segment(7001, b""), true), 1);
    assert_eq!(pdr(&mut rig, &back, false), 2);
    // From the segment with the name on, both ways; other connections to the server are others.
    assert_eq!(pdr(&mut rig, &segment(7001, &hello("Video.example.com")), true), 3);
    assert_eq!(pdr(&mut rig, &segment(7001, b"data"), true), 3);
    assert_eq!(pdr(&mut rig, &back, false), 4);
    assert_eq!(pdr(&mut rig, &segment(7002, b"data"), true), 1);
    assert_eq!(pdr(&mut rig, &segment(7003, &hello("example.com")), true), 1);
    // Rules that change do not forget it.
    assert_eq!(pdr(&mut rig, &segment(7001, b"more"), true), 3);
    rig.now += 601_000_000_000;
    assert_eq!(pdr(&mut rig, &segment(7001, b"late"), true), 1);
}

#[test]
fn a_request_in_plain_http_tells_what_follows_in_its_connection() {
    for (user, server, host) in
        [(USER, "192.0.2.80", "cdn.example"), ("2001:db8::1", "2001:db8:80::80", "[2001:db8::80]")]
    {
        let mut rig = with_domain(&format!("http://{host}/music"));
        let segment = |port: u16, payload: &[u8]| {
            Spec { source_port: port, destination_port: 80, ..Spec::tcp(payload) }
                .between(user, server)
        };
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        let back = Spec { source_port: 80, destination_port: 7001, ..Spec::tcp(b"200") };
        let back = back.between(server, user);
        assert_eq!(pdr(&mut rig, &segment(7001, &get("/other")), true), 1);
        assert_eq!(pdr(&mut rig, &back, false), 2);
        // From the request on, both ways; other connections are others.
        assert_eq!(pdr(&mut rig, &segment(7001, &get("/music/1?quality=9")), true), 3);
        assert_eq!(pdr(&mut rig, &back, false), 4);
        assert_eq!(pdr(&mut rig, &segment(7002, &get("/musical")), true), 1);
        // Until the next request.
        assert_eq!(pdr(&mut rig, &segment(7001, &get("/other")), true), 1);
        assert_eq!(pdr(&mut rig, &back, false), 2);
    }
}
