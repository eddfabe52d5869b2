//! The configurations of nodes that give users to each other.

pub const PLAIN: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: plain}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: counter, config: {payload: {offset: 16, width: 8}}}
  police:
    function: marker
    config: {meter: {twoRate: {committedRate: 80 kbit/s, committedBurst: 200 B,
                               peakRate: 160 kbit/s, peakBurst: 400 B}}}
  own: {function: marker, config: {scope: bearer}}
  guard:
    function: filter
    config: {default: allow, rules: [{action: deny, protocol: udp, destinationPorts: 9}]}
  nearby: {function: rewrite-address, config: {destination: [{from: 198.51.100.9, to: 198.51.100.1}]}}
  spend: {function: synthetic, config: {cycles: 10}}
  swap: {function: forward}
  nothing: {function: pass}
  tally: {function: tally}
  way:
    function: route
    config:
      nextHops: [{name: transit, via: 192.0.2.1}]
      routes: |
        default via 192.0.2.1 dev wan0
  play: {function: mischief}
users:
  - name: ue
    count: 3
    match: {ipv4: 10.0.0.1}
    chain: full
    functions: {tally: {start: 100}}
    bearers:
      - name: web
        when: destination-port == 2000
        functions:
          own: {meter: {singleRate: {committedRate: 80 kbit/s, committedBurst: 500 B}}}
rules: |
  chain full = count -> police -> own -> guard -> nearby -> spend -> tally -> way -> play -> nothing
  from access when chain == full -> full
  from core when chain == full -> full
  from full when direction == uplink -> core
  from full when colour == yellow -> swap
  from full -> access
  from swap -> access
";

pub const TUNNELS: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: tunnels}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    neighbours: {10.0.0.1: 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24, '2001:db8:c::fe/64']
    gateways: [198.51.100.1]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  advertise: {function: router-advertisement}
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
  relay: {function: gtpu-relay}
users:
  - name: ue
    count: 3
    chain: upf
    match: {ipv4: 10.45.0.1, ipv6: '2001:db8:45::/64', teid: 0x1000}
    functions:
      advertise: {prefix: '2001:db8:45::/64'}
      from-radio: {peer: 10.0.0.1, ipv4: 10.45.0.1}
      to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}, qfi: 9}
  - name: through
    count: 3
    chain: sgw
    match: {teid: 0x5000}
    functions:
      relay:
        uplink: {teid: 0x6000, peer: 198.51.100.1, local: 198.51.100.254}
        downlink: {teid: 0x7000, peer: 10.0.0.1, local: 10.0.0.254}
rules: |
  chain upf = advertise
  chain sgw = relay
  from access when chain == upf -> upf
  from access when chain == sgw -> sgw
  from core when chain == upf -> upf
  from core when chain == sgw -> sgw
  from upf when direction == uplink -> from-radio
  from upf -> to-radio
  from from-radio -> core
  from to-radio -> access
  from sgw when direction == uplink -> core
  from sgw -> access
";

pub const SESSIONS: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: sessions}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    neighbours: {10.0.0.1: 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24, '2001:db8:c::fe/64']
    gateways: [198.51.100.1]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  detect: {function: session-detection}
  act: {function: session-forwarding}
users:
  - name: usual
    match: {ipv4: 10.45.0.1, ipv6: '2001:db8:45:0::/64', teid: 0x1000}
    functions:
      detect: &usual
        pdrs:
          - {id: 1, precedence: 9, source: access, removal: gtpu, far: 1, urrs: [1], qers: [1], local: {teid: 0x1000}, ue: {ipv4: 10.45.0.1}}
          - {id: 2, precedence: 9, source: core, far: 2, urrs: [1], qers: [1], ue: {ipv4: 10.45.0.1, ipv6: '2001:db8:45:0::/64'}}
        fars:
          - {id: 1, action: forward, forward: {interface: core}}
          - {id: 2, action: forward, forward: {interface: access, outer: {gtpu: {teid: 0x2001, peer: 10.0.0.1, local: 10.0.0.254}}}}
        qers: [{id: 1, qfi: 9, maximum: {downlink: 100}}]
        urrs: [{id: 1, method: {volume: true}, triggers: [volumeQuota], volumeQuota: {total: 3000}}]
      act: *usual
  - name: filtered
    match: {ipv4: 10.45.0.2, ipv6: '2001:db8:45:1::/64', teid: 0x1001}
    functions:
      detect: &filtered
        pdrs:
          - {id: 1, precedence: 9, source: access, removal: gtpu, far: 1, urrs: [1], qers: [1], local: {teid: 0x1001}, ue: {ipv4: 10.45.0.2}}
          - {id: 2, precedence: 9, source: core, far: 2, urrs: [1], qers: [1], ue: {ipv4: 10.45.0.2, ipv6: '2001:db8:45:1::/64'}}
          - {id: 3, precedence: 1, source: access, removal: gtpu, far: 1, local: {teid: 0x1001}, filters: [{flow: {protocol: 17}}]}
        fars:
          - {id: 1, action: forward, forward: {interface: core}}
          - {id: 2, action: forward, forward: {interface: access, outer: {gtpu: {teid: 0x2002, peer: 10.0.0.1, local: 10.0.0.254}}}}
        qers: [{id: 1, qfi: 9, maximum: {downlink: null}}]
        urrs: [{id: 1, method: {volume: true}, triggers: [volumeQuota], volumeQuota: {total: 3000}}]
      act: *filtered
  - name: waiting
    match: {ipv4: 10.45.0.3, ipv6: '2001:db8:45:2::/64', teid: 0x1002}
    functions:
      detect: &waiting
        pdrs:
          - {id: 1, precedence: 9, source: access, removal: gtpu, far: 1, urrs: [1], qers: [1], local: {teid: 0x1002}, ue: {ipv4: 10.45.0.3}}
          - {id: 2, precedence: 9, source: core, far: 2, urrs: [1], qers: [1], ue: {ipv4: 10.45.0.3, ipv6: '2001:db8:45:2::/64'}}
        fars:
          - {id: 1, action: forward, forward: {interface: core}}
          - {id: 2, action: notify}
        qers: [{id: 1, qfi: 9, maximum: {downlink: null}}]
        urrs: [{id: 1, method: {volume: true}, triggers: [volumeQuota], volumeQuota: {total: 3000}}]
      act: *waiting
rules: |
  from access -> detect
  from core -> detect
  from detect -> act
  from act when interface == access -> access
  from act -> core
";

pub const COMPRESS: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: compress}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  compress: {function: ip-header-compressor}
users:
  - {name: ue, count: 3, match: {ipv4: 10.0.0.1}, functions: {compress: {session: 1}}}
rules: |
  from access -> compress
  from compress -> core
";

pub const EXPAND: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: expand}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  expand: {function: ip-header-decompressor}
  compress: {function: ip-header-compressor}
users:
  - {name: ue, count: 3, match: {session: {port: core, id: 1}}}
rules: |
  from core -> expand
  from expand when iphc == request -> core
  from expand when iphc == report -> compress
  from expand -> access
  from compress -> core
";

pub const BEHIND: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: behind}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  nat:
    function: nat
    config:
      addresses: [192.0.2.0]
      blockSize: 16
      portSeed: 7
      deterministic: 10.0.0.0/24
      timeouts: {udp: 10}
users:
  - {name: ue, count: 3, match: {ipv4: 10.0.0.1}}
  - {name: internet, match: {port: core}}
rules: |
  from access -> nat
  from core -> nat
  from nat when destination in 10.0.0.0/24 -> access
  from nat when direction == uplink -> core
  from nat -> access
";

pub const BORDER: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: border}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: counter}
  border:
    function: lwaftr
    config:
      address: 2001:db8:aaaa::1
      bindings:
        portSets: [{addresses: 192.0.2.128/25}]
        softwires:
          - {ipv4: 192.0.2.129, b4: '2001:db8:0:1::1'}
          - {ipv4: 192.0.2.130, b4: '2001:db8:0:2::1'}
          - {ipv4: 192.0.2.131, b4: '2001:db8:0:3::1'}
users:
  - {name: ue, count: 3, match: {ipv4: 192.0.2.129}}
rules: |
  from core -> count
  from count -> border
  from border -> access
";

/// What goes up leaves sealed; what goes down is sealed, and opened at once.
pub const SECURED: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: secured}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  seal: {function: esp-encrypt}
  back: {function: esp-encrypt}
  open: {function: esp-decrypt}
users:
  - name: ue-0
    match: {ipv4: 10.0.0.1}
    functions:
      seal: {spi: 4096, key: 'a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      back: {spi: 4097, key: 'b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      open: {spi: 4097, key: 'b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0'}
  - name: ue-1
    match: {ipv4: 10.0.0.2}
    functions:
      seal: {spi: 4096, key: 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      back: {spi: 4097, key: 'b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      open: {spi: 4097, key: 'b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1'}
  - name: ue-2
    match: {ipv4: 10.0.0.3}
    functions:
      seal: {spi: 4096, key: 'a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      back: {spi: 4097, key: 'b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2', local: 192.0.2.1, peer: 192.0.2.2, firstIv: 7}
      open: {spi: 4097, key: 'b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2'}
rules: |
  from access -> seal
  from seal -> core
  from core -> back
  from back -> open
  from open -> access
";
