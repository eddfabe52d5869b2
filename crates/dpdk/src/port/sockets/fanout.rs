//! The AF_PACKET driver of DPDK lets the kernel spread packets over its sockets by a hash, and
//! put fragments together before that, which come longer than a buffer then. A socket cannot
//! change either once it has joined the others (`PACKET_FANOUT`, packet(7)). So the call by
//! which it joins is led through here: fragments stay what they are, and a program chooses the
//! socket where that is asked for.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::calls::redirected;

const DRIVER: &[u8] = b"librte_net_af_packet.so";

/// How the sockets of one device join each other.
#[derive(Clone, Copy)]
struct Joining {
    by_program: bool,
    /// Sockets that have.
    joined: usize,
}

thread_local! {
    /// Of the device that this thread makes.
    static JOINING: Cell<Option<Joining>> = const { Cell::new(None) };
}

/// Makes a device; the AF_PACKET sockets that this thread's driver makes for it join each other
/// by the kernel's hash, or else by a program, which is to be given to one of them. Returns how
/// many did: none where the driver is not found, so that it does as it likes.
pub(in crate::port) fn joining<T>(by_program: bool, make: impl FnOnce() -> T) -> (T, usize) {
    let join = join as *const () as usize;
    redirected((DRIVER, c"setsockopt"), join, || {
        JOINING.set(Some(Joining { by_program, joined: 0 }));
        let made = make();
        (made, JOINING.take().map_or(0, |joining| joining.joined))
    })
}

/// What sockets ask for that the driver lets join each other as `asked`: the group in the lower
/// half; above it the way, and flags (packet(7)).
fn own_way(asked: u32, by_program: bool) -> u32 {
    let way = match by_program {
        true => libc::PACKET_FANOUT_CBPF << 16,
        false => asked & 0x00ff_0000,
    };
    asked & 0xff00_ffff & !(libc::PACKET_FANOUT_FLAG_DEFRAG << 16) | way
}

/// As setsockopt(2); what joins sockets joins them in our own way.
unsafe extern "C" fn join(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    let is_join = level == libc::SOL_PACKET && name == libc::PACKET_FANOUT && length == 4;
    if let Some(joining) = JOINING.get().filter(|_| is_join) {
        // SAFETY: the caller gives four octets.
        let asked = unsafe { value.cast::<u32>().read_unaligned() };
        let own = own_way(asked, joining.by_program);
        // SAFETY: four octets are read.
        let status =
            unsafe { libc::setsockopt(socket, level, name, (&raw const own).cast(), length) };
        let joined = joining.joined + usize::from(status == 0);
        JOINING.set(Some(Joining { joined, ..joining }));
        return status;
    }
    // SAFETY: as the caller promises.
    unsafe { libc::setsockopt(socket, level, name, value, length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_stay_what_they_are_whatever_chooses_the_socket() {
        let flags = libc::PACKET_FANOUT_FLAG_ROLLOVER << 16;
        let hash = libc::PACKET_FANOUT_HASH << 16 | flags | 0x1234;
        let asked = hash | libc::PACKET_FANOUT_FLAG_DEFRAG << 16;
        assert_eq!(own_way(asked, false), hash);
        assert_eq!(own_way(asked, true), libc::PACKET_FANOUT_CBPF << 16 | flags | 0x1234);
    }
}
