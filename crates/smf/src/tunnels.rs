//! The tunnels of sessions as a file, for a generator of traffic.

use std::io::{self, Write};

use crate::profile::{Profile, nth_prefix};
use crate::{Sessions, Tunnel};

/// Writes the tunnels of all sessions that are there, a line each, in the order of the users:
/// address of the user, TEID and address of the user plane, TEID and address of the station.
/// Fields are separated by commas, and the first line names them.
///
/// # Errors
/// What writing says.
pub fn write_tunnels(
    profile: &Profile,
    sessions: &Sessions,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "user,uplinkTeid,userPlane,downlinkTeid,station")?;
    let plan = &profile.sessions;
    for session in sessions.all_present() {
        let user = match (plan.ipv4, plan.ipv6) {
            (Some(first), _) => {
                std::net::Ipv4Addr::from(u32::from(first).wrapping_add(session)).to_string()
            }
            (None, Some((first, length))) => nth_prefix(first, length, session)
                .map_or(String::new(), |prefix| format!("{prefix}/{length}")),
            (None, None) => String::new(),
        };
        let first: Option<Tunnel> = sessions.tunnels(session).first().copied().flatten();
        let uplink = first.map_or(",".into(), |(teid, address)| format!("{teid},{address}"));
        let nth = usize::from(sessions.get(session).station);
        let station = plan.stations.get(nth);
        let station = station
            .map_or(",".into(), |address| format!("{},{address}", plan.station_teid + session));
        writeln!(out, "{user},{uplink},{station}")?;
    }
    Ok(())
}
