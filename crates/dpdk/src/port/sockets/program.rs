//! The program by which the kernel chooses the AF_PACKET socket of a packet: the queue of the
//! worker that owns its user. It is classic BPF (`linux/filter.h`), which needs no rights of
//! its own. A packet too short for a load goes to queue 0, as the kernel has it.

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_H, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP,
    BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MOD, BPF_MSH, BPF_RET, BPF_SUB, BPF_W, sock_filter,
};

/// Where the kernel finds the network header, and the type of a frame (`linux/filter.h`).
const NETWORK: u32 = -0x10_0000_i32 as u32;
const FRAME_TYPE: u32 = -0x1000_i32 as u32;
const GTPU_PORT: u32 = 2152;
const UDP: u32 = 17;
/// Octets of the UDP header, and of GTP-U in front of the TEID (TS 29.281 §5.1).
const BEFORE_TEID: u32 = 8 + 4;

/// What tells to which queue a packet goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Queues, as many as there are workers. Packets of no run are spread over them by the number
    /// that users have there, their TEID or address ([`Steering::worker_of`]).
    pub queues: u16,
    /// The queue that worker 0 polls.
    pub first: u16,
    /// Whether users are the source of packets, and not the destination.
    pub of_source: bool,
    /// Users in a row, at most [`Steering::MOST_RUNS`].
    pub runs: Vec<SteeringRun>,
}

/// Users whose keys follow each other, as do their queues, from 0 again behind the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringRun {
    /// What packets show of them.
    pub key: SteeringKey,
    /// The key of the first.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// The queue of the first.
    pub queue: u16,
}

/// What a packet shows of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteeringKey {
    /// Source address in IPv4.
    SourceIpv4,
    /// Destination address in IPv4.
    DestinationIpv4,
    /// Second half of a source prefix of 64 bits in IPv6; this is the first half.
    SourceIpv6(u32),
    /// The same of the destination.
    DestinationIpv6(u32),
    /// TEID of GTP-U, in either version of IP.
    Teid,
}

impl Steering {
    /// Runs of users that a program has room for.
    pub const MOST_RUNS: usize = 128;

    /// Places that the last bits of a user's number say; workers have them in turn.
    pub const PLACES: u32 = 64;

    /// The worker of a user that comes while the node runs, by a number that packets show: a TEID,
    /// an IPv4 address, or the second half of a prefix of 64 bits. A device or a program finds
    /// the worker by a few bits then, without knowing the user.
    pub fn worker_of(number: u32, workers: usize) -> usize {
        (number % Self::PLACES) as usize % workers.max(1)
    }

    /// The program; none with more runs than there is room for.
    pub(super) fn program(&self) -> Option<Vec<sock_filter>> {
        if self.runs.len() > Self::MOST_RUNS || self.queues == 0 {
            return None;
        }
        let (v4, v6) = (self.ipv4(), self.ipv6());
        let mut program = vec![
            load(BPF_W, FRAME_TYPE),
            jump(BPF_JEQ, 0x86dd, 0, 1),
            skip(v4.len() as u32 + 2),
            jump(BPF_JEQ, 0x0800, 1, 0),
            instruction(BPF_RET | BPF_K, 0),
        ];
        program.extend(v4);
        program.extend(v6);
        Some(program)
    }

    fn of(&self, keys: impl Fn(SteeringKey) -> bool) -> impl Iterator<Item = &SteeringRun> {
        self.runs.iter().filter(move |run| keys(run.key))
    }

    fn ipv4(&self) -> Vec<sock_filter> {
        let is_udp = [load(BPF_B, NETWORK + 9)];
        let is_whole = [load(BPF_H, NETWORK + 6)];
        let header = instruction(BPF_LDX | BPF_B | BPF_MSH, NETWORK);
        let port = instruction(BPF_LD | BPF_H | BPF_IND, NETWORK + 2);
        let teid = instruction(BPF_LD | BPF_W | BPF_IND, NETWORK + BEFORE_TEID);
        let tunnelled = self.tunnelled(teid);
        let length = tunnelled.len() as u32;
        let mut program = Vec::from(is_udp);
        program.extend([jump(BPF_JEQ, UDP, 1, 0), skip(7 + length)]);
        program.extend(is_whole);
        // The offset of a fragment (RFC 791 §3.1).
        program.extend([jump(BPF_JSET, 0x1fff, 0, 1), skip(4 + length)]);
        program.extend([header, port, jump(BPF_JEQ, GTPU_PORT, 1, 0), skip(length)]);
        program.extend(tunnelled);
        for (key, at) in [(SteeringKey::SourceIpv4, 12), (SteeringKey::DestinationIpv4, 16)] {
            let address = load(BPF_W, NETWORK + at);
            self.of(|other| other == key).for_each(|run| program.extend(self.run(address, run)));
        }
        program.extend(self.by_place(load(BPF_W, NETWORK + if self.of_source { 12 } else { 16 })));
        program
    }

    fn ipv6(&self) -> Vec<sock_filter> {
        let teid = load(BPF_W, NETWORK + 40 + BEFORE_TEID);
        let tunnelled = self.tunnelled(teid);
        let length = tunnelled.len() as u32;
        let mut program =
            vec![load(BPF_B, NETWORK + 6), jump(BPF_JEQ, UDP, 1, 0), skip(3 + length)];
        program.push(load(BPF_H, NETWORK + 42));
        program.extend([jump(BPF_JEQ, GTPU_PORT, 1, 0), skip(length)]);
        program.extend(tunnelled);
        for run in &self.runs {
            let (half, at) = match run.key {
                SteeringKey::SourceIpv6(half) => (half, 8),
                SteeringKey::DestinationIpv6(half) => (half, 24),
                _ => continue,
            };
            let block = self.run(load(BPF_W, NETWORK + at + 4), run);
            program.extend([load(BPF_W, NETWORK + at), jump(BPF_JEQ, half, 0, block.len() as u8)]);
            program.extend(block);
        }
        // The second half of a prefix.
        let at = if self.of_source { 8 + 4 } else { 24 + 4 };
        program.extend(self.by_place(load(BPF_W, NETWORK + at)));
        program
    }

    /// Gives the queue where the key that `load` loads is of the run; else goes on behind it.
    fn run(&self, load: sock_filter, run: &SteeringRun) -> [sock_filter; 6] {
        [
            load,
            instruction(BPF_ALU | BPF_SUB | BPF_K, run.first),
            jump(BPF_JGE, run.count, 3, 0),
            instruction(BPF_ALU | BPF_ADD | BPF_K, u32::from(run.queue)),
            instruction(BPF_ALU | BPF_MOD | BPF_K, u32::from(self.queues)),
            instruction(BPF_RET | BPF_A, 0),
        ]
    }

    /// Gives the queue of a packet in a tunnel.
    fn tunnelled(&self, teid: sock_filter) -> Vec<sock_filter> {
        let runs = self.of(|key| key == SteeringKey::Teid);
        runs.flat_map(|run| self.run(teid, run)).chain(self.by_place(teid)).collect()
    }

    /// Gives the queue of the worker that the number says which `load` loads.
    fn by_place(&self, load: sock_filter) -> [sock_filter; 6] {
        let queues = u32::from(self.queues);
        [
            load,
            instruction(BPF_ALU | BPF_MOD | BPF_K, Self::PLACES),
            instruction(BPF_ALU | BPF_MOD | BPF_K, queues),
            instruction(BPF_ALU | BPF_ADD | BPF_K, u32::from(self.first)),
            instruction(BPF_ALU | BPF_MOD | BPF_K, queues),
            instruction(BPF_RET | BPF_A, 0),
        ]
    }
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(size: u32, at: u32) -> sock_filter {
    instruction(BPF_LD | size | BPF_ABS, at)
}

fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | condition | BPF_K) as u16, jt, jf, k }
}

/// Goes on behind the next `count` instructions.
fn skip(count: u32) -> sock_filter {
    instruction(BPF_JMP | BPF_JA, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program over a packet that begins with its network header, as the kernel does
    /// (`linux/filter.h`); what is too short gives 0.
    fn run(program: &[sock_filter], frame_type: u32, packet: &[u8]) -> u32 {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
        let read = |size: u32, offset: u32| -> Option<u32> {
            if offset == FRAME_TYPE {
                return Some(frame_type);
            }
            let from = offset.wrapping_sub(NETWORK) as usize;
            let count = [4, 2, 1][(size >> 3) as usize];
            let bytes = packet.get(from..from + count)?;
            Some(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
        };
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            let mut branch = |is_so: bool| at += usize::from(if is_so { jt } else { jf });
            match code & 7 {
                BPF_LD => {
                    let offset = if code & 0xe0 == BPF_IND { x.wrapping_add(k) } else { k };
                    let Some(word) = read(code & 0x18, offset) else { return 0 };
                    a = word;
                }
                BPF_LDX => {
                    let Some(byte) = read(BPF_B, k) else { return 0 };
                    x = (byte & 15) * 4;
                }
                BPF_ALU => {
                    a = match code & 0xf0 {
                        BPF_SUB => a.wrapping_sub(k),
                        BPF_ADD => a.wrapping_add(k),
                        BPF_MOD => a % k,
                        other => panic!("{other:#x}"),
                    };
                }
                BPF_JMP => match code & 0xf0 {
                    BPF_JA => at += k as usize,
                    BPF_JEQ => branch(a == k),
                    BPF_JGE => branch(a >= k),
                    BPF_JSET => branch(a & k != 0),
                    other => panic!("{other:#x}"),
                },
                BPF_RET => return if code & BPF_A != 0 { a } else { k },
                other => panic!("{other:#x}"),
            }
        }
    }

    fn ipv4(source: [u8; 4], destination: [u8; 4], options: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20 + 4 * options];
        (packet[0], packet[9]) = (0x45 + options as u8, 17);
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        packet.extend(payload);
        packet
    }

    /// UDP to the port of GTP-U, and in it a TEID.
    fn tunnel(teid: u32) -> Vec<u8> {
        let mut bytes = vec![0, 1, 8, 104, 0, 0, 0, 0, 0x30, 255, 0, 0];
        bytes.extend(teid.to_be_bytes());
        bytes
    }

    fn ipv6(source: [u16; 4], destination: [u16; 4], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
        for prefix in [source, destination] {
            packet.extend(prefix.iter().flat_map(|word| word.to_be_bytes()));
            packet.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        }
        packet.extend(payload);
        packet
    }

    fn steering() -> Steering {
        let run = |key, first, queue| SteeringRun { key, first, count: 100, queue };
        Steering {
            queues: 4,
            first: 3,
            of_source: true,
            runs: vec![
                run(SteeringKey::Teid, 0x1000, 1),
                run(SteeringKey::Teid, 0xffff_ff00, 2),
                run(SteeringKey::SourceIpv4, 0x0a00_0001, 3),
                run(SteeringKey::SourceIpv6(0x2001_0db8), 0x10, 0),
            ],
        }
    }

    #[test]
    fn a_packet_goes_to_the_queue_of_its_user() {
        let program = steering().program().unwrap();
        for nth in 0..100_u32 {
            let user = (0x0a00_0001 + nth).to_be_bytes();
            let plain = ipv4(user, [198, 51, 100, 1], 0, &[0; 8]);
            assert_eq!(run(&program, 0x0800, &plain), (3 + nth) % 4);
            for options in [0, 2, 10] {
                let outer = ipv4([1, 1, 1, 1], [2, 2, 2, 2], options, &tunnel(0x1000 + nth));
                assert_eq!(run(&program, 0x0800, &outer), (1 + nth) % 4);
            }
            let outer = ipv6([0x2001, 0xdb8, 9, 9], [1, 2, 3, 4], &tunnel(0xffff_ff00 + nth));
            assert_eq!(run(&program, 0x86dd, &outer), (2 + nth) % 4);
            let plain = ipv6([0x2001, 0xdb8, 0, 0x10 + nth as u16], [1, 2, 3, 4], &[0; 24]);
            assert_eq!(run(&program, 0x86dd, &plain), nth % 4);
        }
    }

    #[test]
    fn other_packets_go_where_their_number_says() {
        for workers in [3, 4] {
            let up = Steering { queues: workers, first: 1, of_source: true, runs: Vec::new() };
            let down = Steering { of_source: false, ..up.clone() };
            let (up, down) = (up.program().unwrap(), down.program().unwrap());
            let mut seen = std::collections::BTreeSet::new();
            for host in 0..=255 {
                let worker = Steering::worker_of(u32::from(host), workers.into()) as u16;
                let queue = u32::from((worker + 1) % workers);
                let (a, b) = ([192, 0, 2, host], [198, 51, 100, 9]);
                assert_eq!(run(&up, 0x0800, &ipv4(a, b, 0, &[0; 8])), queue);
                assert_eq!(run(&down, 0x0800, &ipv4(b, a, 0, &[0; 8])), queue);
                let (a, b) = ([0x3fff, 0, 0, u16::from(host)], [0x3fff, 1, 2, 3]);
                assert_eq!(run(&up, 0x86dd, &ipv6(a, b, &[0; 24])), queue);
                assert_eq!(run(&down, 0x86dd, &ipv6(b, a, &[0; 24])), queue);
                for program in [&up, &down] {
                    let inner = tunnel(0xff00 + u32::from(host));
                    let outer = ipv4([1; 4], [2; 4], 0, &inner);
                    assert_eq!(run(program, 0x0800, &outer), queue);
                    assert_eq!(run(program, 0x86dd, &ipv6([1; 4], [2; 4], &inner)), queue);
                }
                seen.insert(queue);
            }
            assert_eq!(seen.len(), usize::from(workers));
        }
    }

    #[test]
    fn fragments_go_by_their_address() {
        let program = steering().program().unwrap();
        let user = [10, 0, 0, 1];
        let mut fragment = ipv4(user, [2, 2, 2, 2], 0, &tunnel(0x1001));
        fragment[7] = 1;
        assert_eq!(run(&program, 0x0800, &fragment), 3);
    }

    #[test]
    fn whatever_comes_gives_a_queue() {
        let program = steering().program().unwrap();
        for length in 0..60 {
            for (frame_type, first) in [(0x0800, 0x4f), (0x86dd, 0x60), (0x0806, 0)] {
                let packet = vec![first; length];
                assert!(run(&program, frame_type, &packet) < 4);
            }
        }
        let mut many = steering();
        many.runs = vec![many.runs[0].clone(); Steering::MOST_RUNS];
        let program = many.program().unwrap();
        assert!(program.len() < 4096, "{}", program.len());
        many.runs.push(many.runs[0].clone());
        assert!(many.program().is_none());
    }
}
