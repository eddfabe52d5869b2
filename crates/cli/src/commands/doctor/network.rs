//! NICs, the IOMMU, and the interfaces of the kernel.

use weft_dpdk::kernel_offloads;

use super::findings::Finding;
use super::host::Host;
use crate::number::counted;

/// Drivers of the kernel beside which DPDK drives the same NIC.
const BIFURCATED: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];
/// Drivers that hold a NIC for DPDK.
const GIVEN: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// All that has to do with packets coming and going.
pub(super) fn all(host: &Host) -> Vec<Finding> {
    let mut findings = vec![iommu(host), devices(host), kernel(host)];
    findings.extend(drivers(host));
    if host.is_this {
        findings.extend(offloads(host));
    }
    findings
}

fn iommu(host: &Host) -> Finding {
    let groups = host.names("sys/kernel/iommu_groups").len();
    let has_vfio = host.has("sys/module/vfio_pci") || host.has("sys/bus/pci/drivers/vfio-pci");
    match (groups, has_vfio) {
        (0, _) => Finding::advice(
            "iommu",
            "no group of devices",
            "NICs by vfio-pci need one: turn VT-d or AMD-Vi on in the firmware, and boot with \
             intel_iommu=on iommu=pt",
        ),
        (_, false) => Finding::advice(
            "iommu",
            format!("{}, and no driver vfio-pci", counted(groups as u64, "group")),
            "modprobe vfio-pci",
        ),
        _ => Finding::good("iommu", format!("{}, vfio-pci", counted(groups as u64, "group"))),
    }
}

/// NICs on the PCI bus, each with who drives it.
fn drivers(host: &Host) -> Vec<Finding> {
    const FOLDER: &str = "sys/bus/pci/devices";
    let mut findings = Vec::new();
    for address in host.names(FOLDER) {
        let folder = format!("{FOLDER}/{address}");
        // Class 02: network controller (PCI Code and ID Assignment Specification).
        if !host.text(&format!("{folder}/class")).starts_with("0x02") {
            continue;
        }
        let driver = host.link(&format!("{folder}/driver")).unwrap_or_default();
        let interfaces = match host.names(&format!("{folder}/net")).join(", ") {
            none if none.is_empty() => none,
            names => format!(" ({names})"),
        };
        let socket = host.text(&format!("{folder}/numa_node"));
        let at = match socket.as_str() {
            "" | "-1" => String::new(),
            socket => format!(", at socket {socket}"),
        };
        findings.push(match driver.as_str() {
            given if GIVEN.contains(&given) => {
                Finding::good("nic", format!("{address} is given to DPDK by {driver}{at}"))
            }
            both if BIFURCATED.contains(&both) => Finding::good(
                "nic",
                format!("{address}{interfaces} has {driver}, beside which DPDK drives it{at}"),
            ),
            _ => Finding::advice(
                "nic",
                match driver.as_str() {
                    "" => format!("{address} has no driver{at}"),
                    _ => format!("{address}{interfaces} is the kernel's, by {driver}{at}"),
                },
                format!("to give it to a node: driverctl set-override {address} vfio-pci"),
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::good("nic", "none on the PCI bus"));
    }
    findings
}

/// The device nodes by which ports are made.
fn devices(host: &Host) -> Finding {
    match host.has("dev/net/tun") {
        true => Finding::good("tap", "/dev/net/tun is there"),
        false => Finding::advice(
            "tap",
            "there is no /dev/net/tun",
            "modprobe tun; of a container, --device /dev/net/tun",
        ),
    }
}

/// Sockets by which ports take interfaces of the kernel.
fn kernel(host: &Host) -> Finding {
    let protocols = host.text("proc/net/protocols");
    let lacks: Vec<_> = [("PACKET", "AF_PACKET"), ("XDP", "AF_XDP")]
        .into_iter()
        .filter(|(word, _)| {
            protocols.lines().all(|line| line.split_whitespace().next() != Some(word))
        })
        .map(|(_, name)| name)
        .collect();
    match lacks.is_empty() {
        true => Finding::good("sockets", "AF_PACKET, AF_XDP"),
        false => Finding::advice(
            "sockets",
            format!("the kernel has no {}", lacks.join(", ")),
            "modprobe af_packet, or a kernel with CONFIG_XDP_SOCKETS",
        ),
    }
}

/// Interfaces whose packets are longer than the wire's.
fn offloads(host: &Host) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in host.names("sys/class/net").into_iter().filter(|name| name != "lo") {
        // An interface may vanish at any time.
        let Ok(on) = kernel_offloads(&name) else { continue };
        let found = format!("{name} has {}", on.join(", "));
        // Segments are joined before a packet socket sees them.
        let joins: Vec<_> = on.iter().filter(|one| ["gro", "lro"].contains(one)).copied().collect();
        findings.push(match joins.is_empty() {
            true if on.is_empty() => Finding::good("offloads", format!("{name} has none")),
            true => Finding::good("offloads", found),
            false => Finding::advice(
                "offloads",
                found,
                format!(
                    "before a port takes it by AF_PACKET or AF_XDP: ethtool -K {name} {}",
                    joins.iter().map(|one| format!("{one} off")).collect::<Vec<_>>().join(" ")
                ),
            ),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::super::findings::Verdict;
    use super::*;

    /// A NIC at this address that a driver has.
    fn nic(root: &Path, address: &str, driver: &str) {
        let folder = root.join("sys/bus/pci/devices").join(address);
        fs::create_dir_all(folder.join("net/eth7")).unwrap();
        fs::write(folder.join("class"), "0x020000\n").unwrap();
        fs::write(folder.join("numa_node"), "1\n").unwrap();
        symlink(format!("../../drivers/{driver}"), folder.join("driver")).unwrap();
    }

    #[test]
    fn each_nic_is_told_with_its_driver_and_socket() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (address, driver) in
            [("0000:03:00.0", "ice"), ("0000:04:00.0", "mlx5_core"), ("0000:05:00.0", "vfio-pci")]
        {
            nic(root, address, driver);
        }
        fs::create_dir_all(root.join("sys/bus/pci/devices/0000:00:01.0")).unwrap();
        fs::create_dir_all(root.join("sys/kernel/iommu_groups/0")).unwrap();
        let findings = all(&Host::below(root));
        let nics: Vec<_> = findings.iter().filter(|one| one.subject == "nic").collect();
        let verdicts: Vec<_> = nics.iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::Advice, Verdict::Good, Verdict::Good]);
        assert_eq!(nics[0].found, "0000:03:00.0 (eth7) is the kernel's, by ice, at socket 1");
        assert!(nics[0].advice.as_ref().unwrap().ends_with("0000:03:00.0 vfio-pci"));
        let iommu = findings.iter().find(|one| one.subject == "iommu").unwrap();
        assert_eq!(iommu.found, "1 group, and no driver vfio-pci");
    }
}
