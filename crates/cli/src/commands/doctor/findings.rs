//! Processor, memory, isolation, clock, and the limits of a container.

use serde::Serialize;

use super::host::Host;

/// Memory below which no node starts, in bytes: DPDK's own, and a small pool.
const LEAST_MEMORY: u64 = 128 << 20;
/// Memory that the rings of two AF_PACKET ports lock, in bytes.
const LOCKED: u64 = 32 << 20;
/// Capabilities by which ports on interfaces of the kernel are opened (capabilities(7)).
const CAPABILITIES: [(&str, u64); 3] =
    [("CAP_NET_ADMIN", 1 << 12), ("CAP_NET_RAW", 1 << 13), ("CAP_IPC_LOCK", 1 << 14)];

/// What is to be thought of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    /// Nothing is to be done.
    Good,
    /// A node runs; it would be faster, or could do more.
    Advice,
    /// No node runs.
    Lacking,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) subject: &'static str,
    pub(super) verdict: Verdict,
    /// How it is.
    pub(super) found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn good(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding { subject, verdict: Verdict::Good, found: found.into(), advice: None }
    }

    pub(super) fn advice(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        let advice = Some(advice.into());
        Finding { subject, verdict: Verdict::Advice, found: found.into(), advice }
    }

    fn lacking(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { verdict: Verdict::Lacking, ..Finding::advice(subject, found, advice) }
    }
}

/// All of the machine itself.
pub(super) fn all(host: &Host) -> Vec<Finding> {
    vec![
        cpu(host),
        clock(host),
        frequency(host),
        huge_pages(host),
        isolation(host),
        cores(host),
        memory(host),
        locked(host),
        rights(host),
    ]
}

fn cpu(host: &Host) -> Finding {
    let flags = host.line("proc/cpuinfo", "flags").unwrap_or_default();
    let lacks = |flag: &&str| flags.split(' ').all(|other| other != *flag);
    let needed: Vec<_> = ["sse4_2", "popcnt"].into_iter().filter(lacks).collect();
    let wanted: Vec<_> =
        ["aes", "pclmulqdq", "avx2", "rdrand", "pdpe1gb"].into_iter().filter(lacks).collect();
    if !needed.is_empty() {
        let found = format!("the processor has no {}", needed.join(", "));
        return Finding::lacking(
            "cpu",
            found,
            "take a processor of 2009 or later, or let the \
            virtual machine see it (-cpu host)",
        );
    }
    if !wanted.is_empty() {
        let found = format!("without {}", wanted.join(", "));
        return Finding::advice(
            "cpu",
            found,
            "IPsec and copies are slower; of a virtual machine, \
            let it see its processor (-cpu host)",
        );
    }
    Finding::good("cpu", "SSE4.2, AES, AVX2")
}

fn clock(host: &Host) -> Finding {
    let source = host.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let flags = host.line("proc/cpuinfo", "flags").unwrap_or_default();
    let is_steady =
        ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|f| f == *flag));
    let found = format!("clock source {source}");
    match (source.as_str(), is_steady) {
        ("tsc", _) | (_, true) => Finding::good("clock", found),
        ("", false) => Finding::advice("clock", "unknown", "see that /sys is mounted"),
        _ => Finding::advice(
            "clock",
            format!("{found}, and the time-stamp counter may stop or change its pace"),
            "rates and cycles are wrong then; disable deep sleep states (intel_idle.max_cstate=1)",
        ),
    }
}

fn frequency(host: &Host) -> Finding {
    let governor = host.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_str() {
        "" => Finding::good("frequency", "not this system's to choose"),
        "performance" => Finding::good("frequency", "governor performance"),
        other => Finding::advice(
            "frequency",
            format!("governor {other}"),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn huge_pages(host: &Host) -> Finding {
    const FOLDER: &str = "sys/kernel/mm/hugepages";
    let mut found = Vec::new();
    let (mut free, mut allowed) = (0, true);
    for size in host.names(FOLDER) {
        let kilobytes = size.trim_start_matches("hugepages-").trim_end_matches("kB");
        let of = |what| host.number(&format!("{FOLDER}/{size}/{what}_hugepages"));
        let (all, unused) = (of("nr"), of("free"));
        free += unused;
        if all > 0 {
            found.push(format!("{unused} of {all} pages of {kilobytes} kB are free"));
        }
        allowed &= in_group(host, &format!("hugetlb.{}.max", unit(kilobytes))) != "0";
    }
    if !allowed && free > 0 {
        let advice = "set hugetlb.2MB.max (and hugetlb.1GB.max) of its group, or the limit \
                      hugepages-2Mi of its pod";
        found.push("of which the container may use none".to_owned());
        return Finding::advice("huge pages", found.join(", "), advice);
    }
    match (found.is_empty(), free) {
        (false, 1..) => Finding::good("huge pages", found.join(", ")),
        (false, 0) => Finding::advice(
            "huge pages",
            found.join(", "),
            "another process holds them; reserve more in \
             /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ),
        _ => Finding::advice(
            "huge pages",
            "none",
            "a node takes half the cycles with them: \
             echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ),
    }
}

/// A size of pages as control groups name it.
fn unit(kilobytes: &str) -> String {
    match kilobytes.parse::<u64>().unwrap_or(0) {
        kilobytes if kilobytes >= 1 << 20 => format!("{}GB", kilobytes >> 20),
        kilobytes if kilobytes >= 1 << 10 => format!("{}MB", kilobytes >> 10),
        kilobytes => format!("{kilobytes}KB"),
    }
}

fn isolation(host: &Host) -> Finding {
    let isolated = host.text("sys/devices/system/cpu/isolated");
    let quiet = host.text("sys/devices/system/cpu/nohz_full");
    let quiet = if quiet == "(null)" { String::new() } else { quiet };
    match (isolated.is_empty(), quiet.is_empty()) {
        (false, false) => Finding::good("isolation", format!("cores {isolated}")),
        (false, true) => Finding::advice(
            "isolation",
            format!("cores {isolated}, which the timer interrupts"),
            "boot with nohz_full= and rcu_nocbs= for the same cores",
        ),
        _ => Finding::advice(
            "isolation",
            "no core is isolated",
            "boot with isolcpus=, nohz_full= and rcu_nocbs= for the cores of workers, and list \
             these in workers.cores",
        ),
    }
}

/// Cores that the process may use, and how much of them.
fn cores(host: &Host) -> Finding {
    let allowed = host.line("proc/self/status", "Cpus_allowed_list").unwrap_or_default();
    let quota = in_group(host, "cpu.max");
    let quota = quota
        .split_once(' ')
        .and_then(|(quota, period)| Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?));
    match quota {
        Some(quota) => Finding::advice(
            "cores",
            format!("{allowed}, of which the container may use {quota:.2}"),
            "the kernel stops workers for the rest of each period: give the container whole cores \
             (--cpuset-cpus) and no quota (cpu.max)",
        ),
        None => Finding::good("cores", allowed),
    }
}

fn memory(host: &Host) -> Finding {
    let free = host.line("proc/meminfo", "MemAvailable").unwrap_or_default();
    let free = free.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10;
    let limit = in_group(host, "memory.max").parse::<u64>().unwrap_or(u64::MAX);
    let found = match limit {
        u64::MAX => format!("{} MB are free", free >> 20),
        _ => format!("{} MB are free, the container may use {} MB", free >> 20, limit >> 20),
    };
    match free.min(limit) < LEAST_MEMORY {
        true => Finding::lacking("memory", found, "a small node takes 128 MB"),
        false => Finding::good("memory", found),
    }
}

/// A limit of the control group that the process is in; empty where there is none.
fn in_group(host: &Host, name: &str) -> String {
    let group = host.line("proc/self/cgroup", "0::").unwrap_or_default();
    let group = group.trim_matches('/');
    let own = host.text(&format!("sys/fs/cgroup/{group}/{name}"));
    // Within a container its group is the root of what it sees.
    if own.is_empty() { host.text(&format!("sys/fs/cgroup/{name}")) } else { own }
}

fn locked(host: &Host) -> Finding {
    let line = host.line("proc/self/limits", "Max locked memory").unwrap_or_default();
    let limit = line.split_whitespace().next().unwrap_or_default().parse::<u64>();
    match limit {
        Ok(bytes) if bytes < LOCKED && !capabilities(host).contains(&"CAP_IPC_LOCK") => {
            Finding::advice(
                "locking",
                format!("{} kB of memory may be locked", bytes >> 10),
                "AF_PACKET locks 16 MB a port and queue: ulimit -l unlimited, or \
                 LimitMEMLOCK=infinity in the service",
            )
        }
        _ => Finding::good("locking", "as much memory as AF_PACKET and AF_XDP lock"),
    }
}

/// The capabilities, of those that matter, that the process has.
fn capabilities(host: &Host) -> Vec<&'static str> {
    let set = host.line("proc/self/status", "CapEff").unwrap_or_default();
    let set = u64::from_str_radix(&set, 16).unwrap_or(0);
    CAPABILITIES.iter().filter(|(_, bit)| set & bit != 0).map(|(name, _)| *name).collect()
}

fn rights(host: &Host) -> Finding {
    let has = capabilities(host);
    let lacks: Vec<_> =
        CAPABILITIES.iter().map(|(name, _)| *name).filter(|name| !has.contains(name)).collect();
    match lacks.is_empty() {
        true => Finding::good("rights", has.join(", ")),
        false => Finding::advice(
            "rights",
            format!("without {}", lacks.join(", ")),
            "ports on interfaces of the kernel need them: run as root, or as a service with \
             AmbientCapabilities=",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn of<'f>(findings: &'f [Finding], subject: &str) -> &'f Finding {
        findings.iter().find(|one| one.subject == subject).unwrap()
    }

    /// A server that was set up, and then each thing taken from it.
    #[test]
    fn a_machine_is_judged_by_what_its_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let flags = "flags\t\t: sse4_2 popcnt aes pclmulqdq avx2 rdrand pdpe1gb constant_tsc \
                     nonstop_tsc";
        let pages = "sys/kernel/mm/hugepages/hugepages-2048kB";
        write(root, "proc/cpuinfo", flags);
        write(root, &format!("{pages}/nr_hugepages"), "512");
        write(root, &format!("{pages}/free_hugepages"), "500");
        write(root, "sys/devices/system/cpu/isolated", "2-15");
        write(root, "sys/devices/system/cpu/nohz_full", "2-15");
        write(root, "proc/meminfo", "MemTotal: 1 kB\nMemAvailable:   8000000 kB");
        write(root, "proc/self/status", "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-15");
        write(root, "proc/self/limits", "Max locked memory  8388608  8388608  bytes");
        write(root, "proc/self/cgroup", "0::/weft");
        let host = Host::below(root);
        let findings = all(&host);
        assert!(findings.iter().all(|one| one.verdict == Verdict::Good), "{findings:#?}");
        assert_eq!(of(&findings, "huge pages").found, "500 of 512 pages of 2048 kB are free");

        write(root, "sys/fs/cgroup/weft/hugetlb.2MB.max", "0");
        let findings = all(&host);
        let pages_of = of(&findings, "huge pages");
        assert!(pages_of.found.ends_with("may use none") && pages_of.advice.is_some());

        write(root, "proc/cpuinfo", "flags: mmx");
        write(root, &format!("{pages}/free_hugepages"), "0");
        write(root, "sys/devices/system/cpu/nohz_full", "(null)");
        write(root, "sys/fs/cgroup/weft/cpu.max", "150000 100000");
        write(root, "sys/fs/cgroup/weft/memory.max", "67108864");
        write(root, "proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-15");
        let findings = all(&host);
        for (subject, verdict, word) in [
            ("cpu", Verdict::Lacking, "no sse4_2, popcnt"),
            ("clock", Verdict::Advice, "unknown"),
            ("huge pages", Verdict::Advice, "0 of 512"),
            ("isolation", Verdict::Advice, "timer"),
            ("cores", Verdict::Advice, "may use 1.50"),
            ("memory", Verdict::Lacking, "may use 64 MB"),
            ("locking", Verdict::Advice, "8192 kB"),
            ("rights", Verdict::Advice, "CAP_NET_ADMIN, CAP_NET_RAW"),
        ] {
            let finding = of(&findings, subject);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.found.contains(word) && finding.advice.is_some(), "{finding:?}");
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(all(&Host::below(folder.path())).len(), 9);
    }
}
