use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// One packet of a random sequence.
#[derive(Clone, Copy, Debug)]
struct Step {
    user: u32,
    port: u16,
    tcp: bool,
    /// Control bits, for TCP.
    flags: u8,
    /// From outside, or from inside; there to a public address.
    inbound: bool,
    hairpin: bool,
    /// Seconds since the one before.
    pause: u64,
    /// The user's timer runs out first.
    timer: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        (1_u32..3, 0_u16..4, any::<bool>(), 0_u8..32),
        (any::<bool>(), prop::bool::weighted(0.2)),
        prop_oneof![4 => Just(0_u64), 1 => 1_u64..400],
        prop::bool::weighted(0.1),
    );
    let step = step.prop_map(|((user, port, tcp, flags), (inbound, hairpin), pause, timer)| Step {
        user,
        port,
        tcp,
        flags,
        inbound,
        hairpin,
        pause,
        timer,
    });
    vec(step, 1..60)
}

/// A TCP segment of the frame gets other control bits.
fn set_flags(frame: &mut [u8], flags: u8) {
    let header = usize::from(frame[NETWORK] & 0xf) * 4;
    let segment = &mut frame[NETWORK + header..];
    let old = u16::from_be_bytes([segment[12], segment[13]]);
    segment[13] = flags;
    let new = u16::from_be_bytes([segment[12], segment[13]]);
    let sum = u16::from_be_bytes([segment[16], segment[17]]);
    segment[16..18].copy_from_slice(&checksum::update16(sum, old, new).to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Options in front make a packet take the long way.
    #[test]
    fn plain_packets_are_translated_like_others(steps in steps()) {
        let mut rigs = [rig(), rig()];
        // Public ends as they became known, of UDP and of TCP.
        let mut public: [Vec<(Ipv4Addr, u16)>; 2] = Default::default();
        for Step { user, port, tcp, flags, inbound, hairpin, pause, timer } in steps {
            let protocol = if tcp { Protocol::TCP } else { Protocol::UDP };
            let known = &mut public[usize::from(tcp)];
            let target = known.get(usize::from(port) % known.len().max(1)).copied();
            let mut spec = match (inbound, target) {
                (true, target) => to(target.unwrap_or(([192, 0, 2, 0].into(), 1024)), SERVER, 80),
                (false, Some((address, port_of))) if hairpin => Spec {
                    destination: address.into(),
                    destination_port: port_of,
                    ..from(&format!("10.0.0.{user}"), 5000 + port)
                },
                _ => from(&format!("10.0.0.{user}"), 5000 + port),
            };
            spec.protocol = protocol;
            let seen = [0, 1].map(|options| {
                let rig = &mut rigs[options];
                rig.now += pause * SECOND;
                if timer {
                    rig.instance.timer(user, rig.now, &pool(), &mut Outcome::default());
                }
                let spec = Spec { options, ..spec.clone() };
                let mut frame = spec.frame();
                if tcp {
                    set_flags(&mut frame, flags);
                }
                let mut metadata = metadata(&frame);
                let user = if inbound { 7 } else { user };
                (metadata.user, metadata.bearer) = (user, user);
                metadata.tags[0] = inbound.into();
                let seen = rig.send_bytes(&frame, metadata);
                let ends = seen.dropped.is_none().then(|| ends(&seen.bytes));
                (seen.dropped, ends, seen.metadata.user, [1, 2].map(|slot| rig.instance.show(slot)))
            });
            prop_assert_eq!(&seen[0], &seen[1]);
            if let (Some([source, _]), false) = (seen[0].1, inbound || hairpin)
                && !known.contains(&source)
            {
                known.push(source);
            }
        }
    }
}
