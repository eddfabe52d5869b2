"""Rules and events as Scapy's elements of PFCP (scapy.contrib.pfcp)."""

import ipaddress

from scapy.contrib import pfcp

INTERFACES = {"access": 0, "core": 1, "sgi": 2, "cp": 3}
REPORT_TYPES = ("DLDR", "USAR", "ERIR", "UPIR", "TMIR", "SESR", "UISR")
NODE_REPORT_TYPES = ("UPFR", "UPRR", "CKDR", "GPQR")
REPORT_TRIGGERS = (
    "PERIO", "VOLTH", "TIMTH", "QUHTI", "START", "STOPT", "DROTH", "IMMER",
    "VOLQU", "TIMQU", "LIUSA", "TERMR", "MONIT", "ENVCL", "MACAR", "EVETH",
    "EVEQU", "TEBUR", "IPMJL", "QUVTI", "EMRRE", "UPINT",
)
TRIGGERS = {
    "PERIO": "periodic_reporting", "VOLTH": "volume_threshold", "TIMTH": "time_threshold",
    "QUHTI": "quota_holding_time", "START": "start_of_traffic", "STOPT": "stop_of_traffic",
    "DROTH": "dropped_dl_traffic_threshold", "LIUSA": "linked_usage_reporting",
    "VOLQU": "volume_quota", "TIMQU": "time_quota", "EVETH": "event_threshold",
    "EVEQU": "event_quota",
}
EPOCH_1900 = 2208988800  # seconds from there to 1970


def elements(rules: dict) -> list:
    """The elements of all rules of a message."""
    made = []
    for key, make in MAKERS.items():
        made += [make(rule) for rule in rules.get(key, ())]
    if rules.get("pdnType"):
        made.append(pfcp.IE_PDNType(pdn_type=rules["pdnType"]))
    if "inactivity" in rules:
        made.append(pfcp.IE_UserPlaneInactivityTimer(timer=rules["inactivity"]))
    return made


# --- rules ------------------------------------------------------------------------


def pdr(group, rule: dict):
    inner = [pfcp.IE_PDR_Id(id=rule["id"])]
    if "precedence" in rule:
        inner.append(pfcp.IE_Precedence(precedence=rule["precedence"]))
    if "pdi" in rule:
        inner.append(pfcp.IE_PDI(IE_list=pdi(rule["pdi"])))
    if "removal" in rule:
        inner.append(pfcp.IE_OuterHeaderRemoval(header=rule["removal"]))
    if "far" in rule:
        inner.append(pfcp.IE_FAR_Id(id=rule["far"]))
    inner += [pfcp.IE_URR_Id(id=number) for number in rule.get("urr", ())]
    inner += [pfcp.IE_QER_Id(id=number) for number in rule.get("qer", ())]
    inner += [pfcp.IE_ActivatePredefinedRules(name=name) for name in rule.get("predefined", ())]
    return group(IE_list=inner)


def pdi(rule: dict) -> list:
    inner = [pfcp.IE_SourceInterface(interface=INTERFACES[rule["source"]])]
    if "fteid" in rule:
        inner.append(fteid(rule["fteid"]))
    if "instance" in rule:
        inner.append(pfcp.IE_NetworkInstance(instance=rule["instance"]))
    if "ue4" in rule or "ue6" in rule:
        inner.append(user_address(rule))
    for filter_ in rule.get("sdf", ()):
        fields = {"FD": 1, "flow_description": filter_["flow"]}
        if "id" in filter_:
            fields.update(BID=1, sdf_filter_id=filter_["id"])
        inner.append(pfcp.IE_SDF_Filter(**fields))
    if "application" in rule:
        inner.append(pfcp.IE_ApplicationId(id=rule["application"]))
    inner += [pfcp.IE_QFI(QFI=qfi) for qfi in rule.get("qfi", ())]
    inner += [pfcp.IE_FramedRoute(framed_route=route) for route in rule.get("routes", ())]
    return inner


def fteid(rule: dict):
    choose = rule.get("choose", "")
    fields = {
        "CH": int(bool(choose)),
        "V4": int("v4" in choose or "ipv4" in rule),
        "V6": int("v6" in choose or "ipv6" in rule),
    }
    if "chooseId" in rule:
        fields.update(CHID=1, choose_id=rule["chooseId"])
    if not choose:
        fields.update(TEID=rule["teid"])
        fields.update({key: rule[key] for key in ("ipv4", "ipv6") if key in rule})
    return pfcp.IE_FTEID(**fields)


def user_address(rule: dict):
    """Scapy's element is that of release 15: it knows neither CHV4 nor prefix lengths."""
    fields = {"SD": int(rule["source"] != "access")}
    flags, extra = 0, b""
    if rule.get("ue4") == "choose":
        flags |= 0x02
    elif "ue4" in rule:
        fields.update(V4=1, ipv4=rule["ue4"])
    if rule.get("ue6") == "choose":
        flags |= 0x04
    elif "ue6" in rule:
        prefix = ipaddress.IPv6Interface(rule["ue6"])
        fields.update(V6=1, ipv6=str(prefix.ip))
        if prefix.network.prefixlen != 64:
            flags |= 0x08
            extra = bytes([prefix.network.prefixlen])
    return pfcp.IE_UE_IP_Address(spare=flags, extra_data=extra, **fields)


def far(group, parameters, rule: dict):
    inner = [pfcp.IE_FAR_Id(id=rule["id"])]
    if "apply" in rule:
        inner.append(pfcp.IE_ApplyAction(**{action: 1 for action in rule["apply"]}))
    if "forward" in rule:
        inner.append(parameters(IE_list=forward(rule["forward"])))
    if "bar" in rule:
        inner.append(pfcp.IE_BAR_Id(id=rule["bar"]))
    return group(IE_list=inner)


def forward(rule: dict) -> list:
    inner = []
    if "destination" in rule:
        inner.append(pfcp.IE_DestinationInterface(interface=INTERFACES[rule["destination"]]))
    if "instance" in rule:
        inner.append(pfcp.IE_NetworkInstance(instance=rule["instance"]))
    if "header" in rule:
        header = rule["header"]
        if "ipv6" in header:
            tunnel = {"GTPUUDPIPV6": 1, "ipv6": header["ipv6"]}
        else:
            tunnel = {"GTPUUDPIPV4": 1, "ipv4": header["ipv4"]}
        inner.append(pfcp.IE_OuterHeaderCreation(TEID=header["teid"], **tunnel))
    if "marking" in rule:
        inner.append(pfcp.IE_TransportLevelMarking(tos=rule["marking"] >> 8, traffic_class=rule["marking"] & 0xFF))
    if "redirect" in rule:
        inner.append(pfcp.IE_RedirectInformation(type=2, address=rule["redirect"]))
    if "policy" in rule:
        inner.append(pfcp.IE_ForwardingPolicy(policy_identifier=rule["policy"]))
    if rule.get("endMarker"):
        inner.append(pfcp.IE_PFCPSMReqFlags(SNDEM=1))
    return inner


def qer(group, rule: dict):
    inner = [pfcp.IE_QER_Id(id=rule["id"])]
    if "correlation" in rule:
        inner.append(pfcp.IE_QERCorrelationId(id=rule["correlation"]))
    if "gate" in rule:
        gate = {key: int(rule["gate"].get(key) == "closed") for key in ("uplink", "downlink")}
        inner.append(pfcp.IE_GateStatus(ul=gate["uplink"], dl=gate["downlink"]))
    if "mbr" in rule:
        inner.append(pfcp.IE_MBR(ul=rule["mbr"]["uplink"], dl=rule["mbr"]["downlink"]))
    if "gbr" in rule:
        inner.append(pfcp.IE_GBR(ul=rule["gbr"]["uplink"], dl=rule["gbr"]["downlink"]))
    if "qfi" in rule:
        inner.append(pfcp.IE_QFI(QFI=rule["qfi"]))
    return group(IE_list=inner)


def volumes(element, limits: dict):
    flags = {"total": "TOVOL", "uplink": "ULVOL", "downlink": "DLVOL"}
    return element(**limits, **{flags[key]: 1 for key in limits})


def urr(group, rule: dict):
    inner = [pfcp.IE_URR_Id(id=rule["id"])]
    if "method" in rule:
        inner.append(pfcp.IE_MeasurementMethod(**{method: 1 for method in rule["method"]}))
    if "triggers" in rule:
        inner.append(pfcp.IE_ReportingTriggers(**{TRIGGERS[name]: 1 for name in rule["triggers"]}))
    if "period" in rule:
        inner.append(pfcp.IE_MeasurementPeriod(period=rule["period"]))
    if "volumeThreshold" in rule:
        inner.append(volumes(pfcp.IE_VolumeThreshold, rule["volumeThreshold"]))
    if "volumeQuota" in rule:
        inner.append(volumes(pfcp.IE_VolumeQuota, rule["volumeQuota"]))
    if "timeThreshold" in rule:
        inner.append(pfcp.IE_TimeThreshold(threshold=rule["timeThreshold"]))
    if "timeQuota" in rule:
        inner.append(pfcp.IE_TimeQuota(quota=rule["timeQuota"]))
    if "holdingTime" in rule:
        inner.append(pfcp.IE_QuotaHoldingTime(time_value=rule["holdingTime"]))
    if "information" in rule:
        inner.append(pfcp.IE_MeasurementInformation(**{flag: 1 for flag in rule["information"]}))
    inner += [pfcp.IE_LinkedURR_Id(id=number) for number in rule.get("linked", ())]
    return group(IE_list=inner)


def bar(group, rule: dict):
    inner = [pfcp.IE_BAR_Id(id=rule["id"])]
    if "delay" in rule:
        inner.append(pfcp.IE_DownlinkDataNotificationDelay(delay=rule["delay"]))
    if "count" in rule:
        inner.append(pfcp.IE_SuggestedBufferingPacketsCount(count=rule["count"]))
    return group(IE_list=inner)


MAKERS = {
    "createPdr": lambda rule: pdr(pfcp.IE_CreatePDR, rule),
    "updatePdr": lambda rule: pdr(pfcp.IE_UpdatePDR, rule),
    "removePdr": lambda number: pfcp.IE_RemovePDR(IE_list=[pfcp.IE_PDR_Id(id=number)]),
    "createFar": lambda rule: far(pfcp.IE_CreateFAR, pfcp.IE_ForwardingParameters, rule),
    "updateFar": lambda rule: far(pfcp.IE_UpdateFAR, pfcp.IE_UpdateForwardingParameters, rule),
    "removeFar": lambda number: pfcp.IE_RemoveFAR(IE_list=[pfcp.IE_FAR_Id(id=number)]),
    "createUrr": lambda rule: urr(pfcp.IE_CreateURR, rule),
    "updateUrr": lambda rule: urr(pfcp.IE_UpdateURR, rule),
    "removeUrr": lambda number: pfcp.IE_RemoveURR(IE_list=[pfcp.IE_URR_Id(id=number)]),
    "createQer": lambda rule: qer(pfcp.IE_CreateQER, rule),
    "updateQer": lambda rule: qer(pfcp.IE_UpdateQER, rule),
    "removeQer": lambda number: pfcp.IE_RemoveQER(IE_list=[pfcp.IE_QER_Id(id=number)]),
    "createBar": lambda rule: bar(pfcp.IE_Create_BAR, rule),
    "updateBar": lambda rule: bar(pfcp.IE_Update_BAR_SMR, rule),
    "removeBar": lambda number: pfcp.IE_Remove_BAR(IE_list=[pfcp.IE_BAR_Id(id=number)]),
}


# --- what was received ------------------------------------------------------------


def names(octets: bytes, bits: tuple) -> list:
    """Of the flags that are set, the least significant bit of the first octet first."""
    return [bit for at, bit in enumerate(bits) if at // 8 < len(octets) and octets[at // 8] >> at % 8 & 1]


def value(element) -> bytes:
    """What stands behind type and length."""
    return element.original[4:4 + element.length]


def describe(event: dict, received: list) -> dict:
    """Puts into an event what the elements of a message say."""
    for element in received:
        put(event, element)
    return event


def put(event: dict, x) -> None:
    number = x.ietype
    if number == 19:
        event["cause"] = x.cause
    elif number == 60:
        event["node"] = x.ipv4 or x.ipv6 or x.id.decode()
    elif number == 40:
        event["offending"] = x.type
    elif number == 43:
        event["features"] = value(x).hex()
    elif number == 96:
        event["recovery"] = x.timestamp - EPOCH_1900
    elif number == 57:
        event["seid"] = x.seid
    elif number == 114:
        event["failed"] = value(x).hex()
    elif number == 39:
        event["types"] = names(value(x), REPORT_TYPES)
    elif number == 101:
        event["types"] = names(value(x), NODE_REPORT_TYPES)
    elif number in GROUPS:
        key, put_inner = GROUPS[number]
        inner = {}
        for element in x.IE_list:
            put_inner(inner, element)
        event.setdefault(key, []).append(inner)


def tunnel(event: dict, x) -> None:
    if x.ietype == 21:
        event["teid"] = x.TEID
        event.update({key: x.getfieldval(key) for key in ("ipv4", "ipv6") if x.getfieldval(key)})


def created_pdr(event: dict, x) -> None:
    if x.ietype == 56:
        event["pdr"] = x.id
    elif x.ietype == 93:
        event.update({key: x.getfieldval(field) for key, field in (("ue4", "ipv4"), ("ue6", "ipv6")) if x.getfieldval(field)})
    tunnel(event, x)


def downlink(event: dict, x) -> None:
    if x.ietype == 56:
        event["pdr"] = x.id
    elif x.ietype == 45:
        event["service"] = value(x).hex()


def usage(event: dict, x) -> None:
    if x.ietype == 81:
        event["urr"] = x.id
    elif x.ietype == 104:
        event["number"] = x.number
    elif x.ietype == 63:
        event["triggers"] = names(value(x), REPORT_TRIGGERS)
    elif x.ietype == 67:
        event["duration"] = x.duration
    elif x.ietype in (75, 76):
        event["start" if x.ietype == 75 else "end"] = x.timestamp - EPOCH_1900
    elif x.ietype == 66:
        volume(event, value(x))


def volume(event: dict, octets: bytes) -> None:
    """Read here: Scapy's element is that of release 15 and knows no numbers of packets."""
    keys = ("total", "uplink", "downlink", "totalPackets", "uplinkPackets", "downlinkPackets")
    at = 1
    for bit, key in enumerate(keys):
        if octets[0] >> bit & 1:
            event[key] = int.from_bytes(octets[at:at + 8], "big")
            at += 8


def peer(event: dict, x) -> None:
    if x.ietype == 103:
        event.update({key: x.getfieldval(key) for key in ("ipv4", "ipv6") if x.getfieldval(key)})


def load(event: dict, x) -> None:
    if x.ietype == 53:
        event["metric"] = x.metric


GROUPS = {
    8: ("created", created_pdr),
    83: ("downlink", downlink),
    99: ("errors", tunnel),
    78: ("usage", usage),
    79: ("usage", usage),
    80: ("usage", usage),
    102: ("peers", peer),
    51: ("load", load),
    54: ("load", load),
}
