//! NICs, the IOMMU, and the interfaces of the kernel.

use weft_dpdk::kernel_offloads;

use super::findings::Finding;
use super::host::Host;
use crate::number::counted;

/// Drivers of the kernel beside which DPDK drives the same NIC.
const BIFURCATED: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];
/// Drivers that hold a NIC for DPDK.
const GIVEN: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

const PCI: &str = "sys/bus/pci/devices";
/// Drivers of the kernel, and vendors that make one kind of NIC alone, with the driver of DPDK.
const TAKES: [(&str, &str, &str); 13] = [
    ("mlx5_core", "0x15b3", "net_mlx5"),
    ("ice", "", "net_ice"),
    ("i40e", "", "net_i40e"),
    ("iavf", "", "net_iavf"),
    ("ixgbe", "", "net_ixgbe"),
    ("ixgbevf", "", "net_ixgbe"),
    ("igb", "", "net_e1000"),
    ("igbvf", "", "net_e1000"),
    ("e1000e", "", "net_e1000"),
    ("ena", "0x1d0f", "net_ena"),
    ("virtio-pci", "0x1af4", "net_virtio"),
    ("vmxnet3", "0x15ad", "net_vmxnet3"),
    ("bnxt_en", "0x14e4", "net_bnxt"),
];

/// All that has to do with packets coming and going.
pub(super) fn all(host: &Host) -> Vec<Finding> {
    let mut findings = vec![iommu(host), devices(host), kernel(host), dpdk(host)];
    findings.extend(drivers(host));
    if host.is_this {
        findings.extend(offloads(host));
    }
    findings
}

fn iommu(host: &Host) -> Finding {
    const UNSAFE: &str = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let groups = host.names("sys/kernel/iommu_groups").len();
    let has_vfio = host.has("sys/module/vfio_pci") || host.has("sys/bus/pci/drivers/vfio-pci");
    let found = counted(groups as u64, "group");
    match (groups, has_vfio) {
        (0, true) if host.text(UNSAFE) == "Y" => Finding::advice(
            "iommu",
            "none; vfio-pci gives NICs away without (enable_unsafe_noiommu_mode)",
            "a NIC can then write to all of the memory: turn VT-d or AMD-Vi on in the firmware",
        ),
        (0, _) => Finding::advice(
            "iommu",
            "no group of devices",
            "NICs by vfio-pci need one: turn VT-d or AMD-Vi on in the firmware, and boot with \
             intel_iommu=on iommu=pt",
        ),
        (_, false) => Finding::advice(
            "iommu",
            format!("{found}, and no driver vfio-pci"),
            "modprobe vfio-pci",
        ),
        _ if !host.has("dev/vfio/vfio") => Finding::advice(
            "iommu",
            format!("{found}, vfio-pci, and no /dev/vfio/vfio"),
            "of a container, --device /dev/vfio/vfio and the groups of its NICs (/dev/vfio/N)",
        ),
        _ => Finding::good("iommu", format!("{found}, vfio-pci")),
    }
}

/// DPDK's drivers, which lie beside its libraries: those that the NICs of this machine take, and
/// those of the kernel's interfaces.
fn dpdk(host: &Host) -> Finding {
    // Debian's libraries, and those that were built on the machine.
    let folders = ["usr/lib/x86_64-linux-gnu/dpdk", "usr/local/lib/x86_64-linux-gnu/dpdk"];
    let found: Vec<String> = folders
        .iter()
        .flat_map(|folder| {
            let versions = host.names(folder).into_iter().filter(|name| name.starts_with("pmds-"));
            versions.map(move |version| format!("{folder}/{version}"))
        })
        .collect();
    let Some(folder) = found.first() else {
        let advice = "apt install librte-net-af-packet23 librte-net-af-xdp23 librte-net-tap23, and \
                      that of the NIC";
        return Finding::advice("drivers", "none of DPDK's beside its libraries", advice);
    };
    let names = host.names(folder);
    let has =
        |driver: &&str| names.iter().any(|name| name.starts_with(&format!("librte_{driver}.so")));
    let wanted = wanted_drivers(host);
    let lacks: Vec<_> = wanted.iter().copied().filter(|driver| !has(driver)).collect();
    match lacks.is_empty() {
        true => Finding::good("drivers", format!("{} in /{folder}", wanted.join(", "))),
        false => Finding::advice(
            "drivers",
            format!("/{folder} has no {}", lacks.join(", ")),
            format!(
                "apt install {}",
                lacks.iter().map(|one| package(one)).collect::<Vec<_>>().join(" ")
            ),
        ),
    }
}

/// Drivers of DPDK that this machine has a use for.
fn wanted_drivers(host: &Host) -> Vec<&'static str> {
    let mut wanted = vec!["net_af_packet", "net_af_xdp", "net_tap"];
    for address in nics(host) {
        let folder = format!("{PCI}/{address}");
        let driver = host.link(&format!("{folder}/driver")).unwrap_or_default();
        let vendor = host.text(&format!("{folder}/vendor"));
        let takes = TAKES
            .iter()
            .find(|(kernel, of, _)| *kernel == driver || !of.is_empty() && *of == vendor);
        wanted.extend(takes.map(|(.., dpdk)| *dpdk));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The package of Debian that has a driver.
fn package(driver: &str) -> String {
    let name = driver.replace('_', "-");
    let between = if name.ends_with(|last: char| last.is_ascii_digit()) { "-" } else { "" };
    format!("lib{}{between}23", name.replacen("net", "rte-net", 1))
}

/// Addresses of NICs on the PCI bus.
fn nics(host: &Host) -> Vec<String> {
    // Class 02: network controller (PCI Code and ID Assignment Specification).
    let is_nic =
        |address: &String| host.text(&format!("{PCI}/{address}/class")).starts_with("0x02");
    host.names(PCI).into_iter().filter(is_nic).collect()
}

/// NICs on the PCI bus, each with who drives it.
fn drivers(host: &Host) -> Vec<Finding> {
    let mut findings = Vec::new();
    for address in nics(host) {
        let folder = format!("{PCI}/{address}");
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

    #[test]
    fn an_iommu_is_of_use_where_its_devices_can_be_had() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let said = || iommu(&Host::below(root));
        assert_eq!(said().found, "no group of devices");
        fs::create_dir_all(root.join("sys/bus/pci/drivers/vfio-pci")).unwrap();
        let parameters = root.join("sys/module/vfio/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("enable_unsafe_noiommu_mode"), "Y\n").unwrap();
        assert!(said().advice.unwrap().contains("all of the memory"));
        fs::create_dir_all(root.join("sys/kernel/iommu_groups/0")).unwrap();
        assert_eq!(said().found, "1 group, vfio-pci, and no /dev/vfio/vfio");
        fs::create_dir_all(root.join("dev/vfio")).unwrap();
        fs::write(root.join("dev/vfio/vfio"), "").unwrap();
        assert_eq!(said().verdict, Verdict::Good);
    }

    #[test]
    fn drivers_of_dpdk_that_nics_take_are_missed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(dpdk(&Host::below(root)).found.starts_with("none of DPDK's"));
        let drivers = root.join("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0");
        fs::create_dir_all(&drivers).unwrap();
        for name in ["net_af_packet", "net_af_xdp", "net_tap"] {
            fs::write(drivers.join(format!("librte_{name}.so.23")), "").unwrap();
        }
        assert_eq!(dpdk(&Host::below(root)).verdict, Verdict::Good);
        nic(root, "0000:03:00.0", "ice");
        nic(root, "0000:04:00.0", "igb");
        // One that vfio-pci has is known by its vendor alone.
        nic(root, "0000:05:00.0", "vfio-pci");
        fs::write(root.join("sys/bus/pci/devices/0000:05:00.0/vendor"), "0x15b3\n").unwrap();
        let finding = dpdk(&Host::below(root));
        assert!(finding.found.ends_with("has no net_e1000, net_ice, net_mlx5"), "{finding:?}");
        let advice = "apt install librte-net-e1000-23 librte-net-ice23 librte-net-mlx5-23";
        assert_eq!(finding.advice.as_deref(), Some(advice));
    }
}
