//! Control planes of `weft smf`, each at an address of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;
use weft_smf::{Kind, Profile, Statistics};

use super::user_plane::{ACCESS, ADDRESS, FIRST_TEID, STATION};
use weft_rig::Failure;

/// Requests that wait, at most, of a load that has a rate.
const OUTSTANDING: u32 = 16_384;

/// A control plane and what its sessions are like.
pub struct ControlPlane {
    /// The last number of its address.
    number: u8,
    count: u32,
    outstanding: u32,
    has_urr: bool,
}

/// A load: establishments a second before it, and what it is.
#[derive(Clone, Copy)]
struct Offered {
    ramp: f64,
    rate: f64,
    seconds: f64,
}

/// What came of a load.
pub struct Answered {
    /// Requests that were due and not sent, not answered, or refused.
    pub missing: u64,
    /// Time from a request to its answer that 99 of 100 keep to.
    pub p99: Duration,
    /// Messages that were answered, those before and behind the load as well.
    pub answered: u64,
}

impl ControlPlane {
    /// The one whose sessions stay: users 10.0.0.0 and on.
    pub fn first(count: u32, outstanding: u32) -> ControlPlane {
        ControlPlane { number: 0, count, outstanding, has_urr: true }
    }

    /// The `nth` other, from 1, whose sessions come and go.
    pub fn beside(nth: u8, count: u32) -> ControlPlane {
        ControlPlane { number: nth, count, outstanding: OUTSTANDING, has_urr: true }
    }

    /// The same without a usage reporting rule.
    pub fn without_urr(self) -> ControlPlane {
        ControlPlane { has_urr: false, ..self }
    }

    /// Establishes its sessions; how many a second.
    ///
    /// # Errors
    /// When one is refused, or the user plane does not answer.
    pub fn establish(&self) -> Result<f64, Failure> {
        let statistics = self.run(None)?;
        let establish = statistics.of(Kind::Establish);
        if let Some((cause, count)) = establish.refused.first_key_value() {
            let cause = weft_smf::cause(*cause);
            return Err(format!("{count} establishments were refused: {cause}").into());
        }
        let took = statistics.establishing.filter(|_| establish.lost == 0);
        let took = took.ok_or("not all sessions were established")?;
        Ok(f64::from(self.count) / took.as_secs_f64())
    }

    /// Establishes, changes and deletes its sessions at a rate, in equal parts. Before it they
    /// are established at `ramp` a second.
    ///
    /// # Errors
    /// When the user plane does not answer at all.
    pub fn mix(&self, ramp: f64, rate: f64, seconds: f64) -> Result<Answered, Failure> {
        let statistics = self.run(Some(Offered { ramp, rate, seconds }))?;
        let load = &statistics.load;
        // What the user plane refuses, as too much waits, is not done either.
        let refused: u64 = load.refused.values().sum();
        Ok(Answered {
            missing: statistics.unsent + load.lost + refused,
            p99: load.percentile(99.0),
            answered: statistics.sum(|one| one.answered),
        })
    }

    fn run(&self, load: Option<Offered>) -> Result<Statistics, Failure> {
        let profile = self.profile(load)?;
        let run = weft_smf::run(&profile, || false, |_, _| {})?;
        if let Some(failure) = run.failure() {
            return Err(failure.to_owned().into());
        }
        Ok(run.statistics().clone())
    }

    fn profile(&self, load: Option<Offered>) -> Result<Profile, Failure> {
        let [a, b, c, d] = ADDRESS.octets();
        let number = u32::from(self.number);
        let urrs = if self.has_urr { vec![1] } else { vec![] };
        let mut document = json!({
            "apiVersion": "weft/v1",
            "kind": "ControlPlane",
            "metadata": {"name": "bench"},
            "local": Ipv4Addr::new(a, b, c, d + 1 + self.number),
            "userPlane": ADDRESS,
            "retransmission": {"t1": 3, "n1": 3},
            "heartbeat": 0,
            "outstanding": self.outstanding,
            "keep": load.is_none(),
            "sessions": {
                "count": self.count,
                "ipv4": Ipv4Addr::from_bits(0x0a00_0000 + (number << 24)),
                "tunnels": {"given": {
                    "address": ACCESS,
                    "firstTeid": FIRST_TEID + (number << 24),
                }},
                "stations": [STATION, "192.0.2.11"],
                "stationTeid": 0x10_0000,
            },
            "rules": {
                "pdrs": [
                    {"id": 1, "source": "access", "tunnel": true, "far": 1, "qers": [1], "urrs": urrs},
                    {"id": 2, "source": "core", "far": 2, "qers": [1], "urrs": urrs},
                ],
                "fars": [
                    {"id": 1, "destination": "core"},
                    {"id": 2, "destination": "access", "tunnel": true},
                ],
                "qers": [{
                    "id": 1,
                    "mbr": {"uplink": "1 Gbit/s", "downlink": "1 Gbit/s"},
                    "qfi": 9,
                }],
            },
        });
        if self.has_urr {
            document["rules"]["urrs"] = json!([{"id": 1, "volumeThreshold": "1000 GB"}]);
        }
        if let Some(Offered { ramp, rate, seconds }) = load {
            document["sessions"]["rate"] = json!(ramp);
            let mix = json!({"establish": 1, "delete": 1, "handover": 1});
            document["load"] = json!({"duration": seconds, "rate": rate, "mix": mix});
        }
        // JSON is YAML.
        let profile = Profile::read(&document.to_string(), "bench");
        profile.map_err(|mistakes| mistakes.to_string().into())
    }
}
