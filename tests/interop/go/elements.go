package main

import (
	"encoding/hex"

	"github.com/wmnsk/go-pfcp/ie"
)

// Names of the bits of flags, the least significant first.
var (
	reportTypes     = []string{"DLDR", "USAR", "ERIR", "UPIR", "TMIR", "SESR", "UISR"}
	nodeReportTypes = []string{"UPFR", "UPRR", "CKDR", "GPQR"}
	reportTriggers  = []string{
		"PERIO", "VOLTH", "TIMTH", "QUHTI", "START", "STOPT", "DROTH", "IMMER",
		"VOLQU", "TIMQU", "LIUSA", "TERMR", "MONIT", "ENVCL", "MACAR", "EVETH",
		"EVEQU", "TEBUR", "IPMJL", "QUVTI", "EMRRE", "UPINT",
	}
)

// names of the flags that are set in these octets.
func names(octets []byte, bits []string) []string {
	set := []string{}
	for i, bit := range bits {
		if i/8 < len(octets) && octets[i/8]>>(i%8)&1 == 1 {
			set = append(set, bit)
		}
	}
	return set
}

// describe puts into an event what the elements of a message say.
func describe(e event, elements []*ie.IE) event {
	for _, x := range elements {
		if err := put(e, x); err != nil {
			e["malformed"] = append(list(e, "malformed"), event{"element": x.Type, "why": err.Error()})
		}
	}
	return e
}

func list(e event, key string) []event {
	have, _ := e[key].([]event)
	return have
}

func put(e event, x *ie.IE) (err error) {
	switch x.Type {
	case ie.Cause:
		e["cause"], err = x.Cause()
	case ie.NodeID:
		e["node"], err = x.NodeID()
	case ie.OffendingIE:
		e["offending"], err = x.OffendingIE()
	case ie.UPFunctionFeatures:
		e["features"] = hex.EncodeToString(x.Payload)
	case ie.RecoveryTimeStamp:
		at, why := x.RecoveryTimeStamp()
		e["recovery"], err = at.Unix(), why
	case ie.FSEID:
		fields, why := x.FSEID()
		if why != nil {
			return why
		}
		e["seid"] = fields.SEID
	case ie.FailedRuleID:
		e["failed"] = hex.EncodeToString(x.Payload)
	case ie.ReportType:
		e["types"] = names(x.Payload, reportTypes)
	case ie.NodeReportType:
		e["types"] = names(x.Payload, nodeReportTypes)
	case ie.CreatedPDR:
		return each(e, "created", x, createdPDR)
	case ie.DownlinkDataReport:
		return each(e, "downlink", x, downlink)
	case ie.ErrorIndicationReport:
		return each(e, "errors", x, tunnel)
	case ie.UsageReportWithinSessionModificationResponse,
		ie.UsageReportWithinSessionDeletionResponse,
		ie.UsageReportWithinSessionReportRequest:
		return each(e, "usage", x, usage)
	case ie.UserPlanePathFailureReport, ie.UserPlanePathRecoveryReport:
		return each(e, "peers", x, peer)
	case ie.LoadControlInformation, ie.OverloadControlInformation:
		return each(e, "load", x, load)
	}
	return err
}

// each adds what a group says to a list of the event.
func each(e event, key string, group *ie.IE, put func(event, *ie.IE) error) error {
	inner, err := ie.ParseMultiIEs(group.Payload)
	if err != nil {
		return err
	}
	said := event{}
	for _, x := range inner {
		if err := put(said, x); err != nil {
			return err
		}
	}
	e[key] = append(list(e, key), said)
	return nil
}

func createdPDR(e event, x *ie.IE) (err error) {
	switch x.Type {
	case ie.PDRID:
		e["pdr"], err = x.PDRID()
	case ie.FTEID:
		return tunnel(e, x)
	case ie.UEIPAddress:
		fields, why := x.UEIPAddress()
		if why != nil {
			return why
		}
		if fields.IPv4Address != nil {
			e["ue4"] = fields.IPv4Address.String()
		}
		if fields.IPv6Address != nil {
			e["ue6"] = fields.IPv6Address.String()
		}
	}
	return err
}

func tunnel(e event, x *ie.IE) error {
	if x.Type != ie.FTEID {
		return nil
	}
	fields, err := x.FTEID()
	if err != nil {
		return err
	}
	e["teid"] = fields.TEID
	if fields.IPv4Address != nil {
		e["ipv4"] = fields.IPv4Address.String()
	}
	if fields.IPv6Address != nil {
		e["ipv6"] = fields.IPv6Address.String()
	}
	return nil
}

func downlink(e event, x *ie.IE) (err error) {
	switch x.Type {
	case ie.PDRID:
		e["pdr"], err = x.PDRID()
	case ie.DownlinkDataServiceInformation:
		e["service"] = hex.EncodeToString(x.Payload)
	}
	return err
}

func usage(e event, x *ie.IE) (err error) {
	switch x.Type {
	case ie.URRID:
		e["urr"], err = x.URRID()
	case ie.URSEQN:
		e["number"], err = x.URSEQN()
	case ie.UsageReportTrigger:
		e["triggers"] = names(x.Payload, reportTriggers)
	case ie.DurationMeasurement:
		lasted, why := x.DurationMeasurement()
		e["duration"], err = lasted.Seconds(), why
	case ie.StartTime:
		at, why := x.StartTime()
		e["start"], err = at.Unix(), why
	case ie.EndTime:
		at, why := x.EndTime()
		e["end"], err = at.Unix(), why
	case ie.VolumeMeasurement:
		return volume(e, x)
	}
	return err
}

func volume(e event, x *ie.IE) error {
	fields, err := x.VolumeMeasurement()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		has   bool
		key   string
		value uint64
	}{
		{fields.HasTOVOL(), "total", fields.TotalVolume},
		{fields.HasULVOL(), "uplink", fields.UplinkVolume},
		{fields.HasDLVOL(), "downlink", fields.DownlinkVolume},
		{fields.HasTONOP(), "totalPackets", fields.TotalNumberOfPackets},
		{fields.HasULNOP(), "uplinkPackets", fields.UplinkNumberOfPackets},
		{fields.HasDLNOP(), "downlinkPackets", fields.DownlinkNumberOfPackets},
	} {
		if part.has {
			e[part.key] = part.value
		}
	}
	return nil
}

func peer(e event, x *ie.IE) error {
	if x.Type != ie.RemoteGTPUPeer {
		return nil
	}
	fields, err := x.RemoteGTPUPeer()
	if err != nil {
		return err
	}
	if fields.IPv4Address != nil {
		e["ipv4"] = fields.IPv4Address.String()
	}
	if fields.IPv6Address != nil {
		e["ipv6"] = fields.IPv6Address.String()
	}
	return nil
}

func load(e event, x *ie.IE) (err error) {
	if x.Type == ie.Metric {
		e["metric"], err = x.Metric()
	}
	return err
}
