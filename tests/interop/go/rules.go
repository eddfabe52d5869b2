package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// rules are those of one message, as tests/interop/README.md lists them.
type rules struct {
	CreatePDR  []pdr    `json:"createPdr"`
	UpdatePDR  []pdr    `json:"updatePdr"`
	RemovePDR  []uint16 `json:"removePdr"`
	CreateFAR  []far    `json:"createFar"`
	UpdateFAR  []far    `json:"updateFar"`
	RemoveFAR  []uint32 `json:"removeFar"`
	CreateQER  []qer    `json:"createQer"`
	UpdateQER  []qer    `json:"updateQer"`
	RemoveQER  []uint32 `json:"removeQer"`
	CreateURR  []urr    `json:"createUrr"`
	UpdateURR  []urr    `json:"updateUrr"`
	RemoveURR  []uint32 `json:"removeUrr"`
	CreateBAR  []bar    `json:"createBar"`
	UpdateBAR  []bar    `json:"updateBar"`
	RemoveBAR  []uint8  `json:"removeBar"`
	Inactivity *uint32  `json:"inactivity"` // seconds
	PDNType    uint8    `json:"pdnType"`
}

type pdr struct {
	ID         uint16   `json:"id"`
	Precedence *uint32  `json:"precedence"`
	PDI        *pdi     `json:"pdi"`
	Removal    *uint8   `json:"removal"`
	FAR        uint32   `json:"far"`
	URRs       []uint32 `json:"urr"`
	QERs       []uint32 `json:"qer"`
	Predefined []string `json:"predefined"`
}

type pdi struct {
	Source      string   `json:"source"`
	Instance    string   `json:"instance"`
	FTEID       *fteid   `json:"fteid"`
	UE4         string   `json:"ue4"`
	UE6         string   `json:"ue6"`
	SDF         []sdf    `json:"sdf"`
	QFIs        []uint8  `json:"qfi"`
	Application string   `json:"application"`
	Routes      []string `json:"routes"`
}

type fteid struct {
	Choose   string `json:"choose"` // v4, v6, v4v6: of the user plane's choice
	ChooseID *uint8 `json:"chooseId"`
	TEID     uint32 `json:"teid"`
	IPv4     string `json:"ipv4"`
	IPv6     string `json:"ipv6"`
}

type sdf struct {
	Flow string `json:"flow"`
	ID   uint32 `json:"id"`
}

type far struct {
	ID      uint32   `json:"id"`
	Apply   []string `json:"apply"`
	BAR     *uint8   `json:"bar"`
	Forward *forward `json:"forward"`
}

type forward struct {
	Destination string  `json:"destination"`
	Instance    string  `json:"instance"`
	Header      *header `json:"header"`
	Policy      string  `json:"policy"`
	Redirect    string  `json:"redirect"`
	Marking     *uint16 `json:"marking"`
	EndMarker   bool    `json:"endMarker"`
}

type header struct {
	TEID uint32 `json:"teid"`
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"`
}

type directions[T any] struct {
	Uplink   T `json:"uplink"`
	Downlink T `json:"downlink"`
}

type qer struct {
	ID          uint32              `json:"id"`
	Gate        *directions[string] `json:"gate"`
	MBR         *directions[uint64] `json:"mbr"` // kbit/s
	GBR         *directions[uint64] `json:"gbr"`
	QFI         *uint8              `json:"qfi"`
	Correlation *uint32             `json:"correlation"`
}

type volumes struct {
	Total    *uint64 `json:"total"`
	Uplink   *uint64 `json:"uplink"`
	Downlink *uint64 `json:"downlink"`
}

type urr struct {
	ID              uint32   `json:"id"`
	Method          []string `json:"method"`
	Triggers        []string `json:"triggers"`
	VolumeThreshold *volumes `json:"volumeThreshold"`
	VolumeQuota     *volumes `json:"volumeQuota"`
	TimeThreshold   *uint32  `json:"timeThreshold"`
	TimeQuota       *uint32  `json:"timeQuota"`
	HoldingTime     *uint32  `json:"holdingTime"`
	Period          *uint32  `json:"period"`
	Information     []string `json:"information"`
	Linked          []uint32 `json:"linked"`
}

type bar struct {
	ID    uint8  `json:"id"`
	Delay *uint8 `json:"delay"` // in units of 50 ms
	Count *uint8 `json:"count"`
}

var (
	interfaces   = map[string]uint8{"access": 0, "core": 1, "sgi": 2, "cp": 3}
	applyActions = []string{"DROP", "FORW", "BUFF", "NOCP", "DUPL", "", "", "DFRT", "EDRT", "BDPN", "DDPN"}
	methods      = []string{"DURAT", "VOLUM", "EVENT"}
	information  = []string{"MBQE", "INAM", "RADI", "ISTM", "MNOP"}
	triggers     = []string{
		"PERIO", "VOLTH", "TIMTH", "QUHTI", "START", "STOPT", "DROTH", "LIUSA",
		"VOLQU", "TIMQU", "ENVCL", "MACAR", "EVETH", "EVEQU", "IPMJL", "QUVTI",
		"REEMR", "UPINT",
	}
)

// octets are at least as many as said, with the bits of these names set.
func octets(atLeast int, names, bits []string) []uint8 {
	flags := make([]uint8, atLeast)
	for _, name := range names {
		for i, bit := range bits {
			if bit != name {
				continue
			}
			for len(flags) <= i/8 {
				flags = append(flags, 0)
			}
			flags[i/8] |= 1 << (i % 8)
		}
	}
	return flags
}

// elements of all rules, those that others refer to last: no order is promised (§5.2.1).
func (r rules) elements() []*ie.IE {
	var all []*ie.IE
	for _, x := range r.CreatePDR {
		all = append(all, ie.NewCreatePDR(x.elements()...))
	}
	for _, x := range r.UpdatePDR {
		all = append(all, ie.NewUpdatePDR(x.elements()...))
	}
	for _, id := range r.RemovePDR {
		all = append(all, ie.NewRemovePDR(ie.NewPDRID(id)))
	}
	for _, x := range r.CreateFAR {
		all = append(all, ie.NewCreateFAR(x.elements(ie.NewForwardingParameters)...))
	}
	for _, x := range r.UpdateFAR {
		all = append(all, ie.NewUpdateFAR(x.elements(ie.NewUpdateForwardingParameters)...))
	}
	for _, id := range r.RemoveFAR {
		all = append(all, ie.NewRemoveFAR(ie.NewFARID(id)))
	}
	for _, x := range r.CreateURR {
		all = append(all, ie.NewCreateURR(x.elements()...))
	}
	for _, x := range r.UpdateURR {
		all = append(all, ie.NewUpdateURR(x.elements()...))
	}
	for _, id := range r.RemoveURR {
		all = append(all, ie.NewRemoveURR(ie.NewURRID(id)))
	}
	for _, x := range r.CreateQER {
		all = append(all, ie.NewCreateQER(x.elements()...))
	}
	for _, x := range r.UpdateQER {
		all = append(all, ie.NewUpdateQER(x.elements()...))
	}
	for _, id := range r.RemoveQER {
		all = append(all, ie.NewRemoveQER(ie.NewQERID(id)))
	}
	for _, x := range r.CreateBAR {
		all = append(all, ie.NewCreateBAR(x.elements()...))
	}
	for _, x := range r.UpdateBAR {
		all = append(all, ie.NewUpdateBAR(ie.UpdateBARWithinSessionModificationRequest, x.elements()...))
	}
	for _, id := range r.RemoveBAR {
		all = append(all, ie.NewRemoveBAR(ie.NewBARID(id)))
	}
	if r.PDNType != 0 {
		all = append(all, ie.NewPDNType(r.PDNType))
	}
	if r.Inactivity != nil {
		all = append(all, ie.NewUserPlaneInactivityTimer(seconds(*r.Inactivity)))
	}
	return all
}

func seconds(n uint32) time.Duration {
	return time.Duration(n) * time.Second
}

func (x pdr) elements() []*ie.IE {
	all := []*ie.IE{ie.NewPDRID(x.ID)}
	if x.Removal != nil {
		all = append(all, ie.NewOuterHeaderRemoval(*x.Removal, 0))
	}
	if x.Precedence != nil {
		all = append(all, ie.NewPrecedence(*x.Precedence))
	}
	if x.PDI != nil {
		all = append(all, ie.NewPDI(x.PDI.elements()...))
	}
	if x.FAR != 0 {
		all = append(all, ie.NewFARID(x.FAR))
	}
	for _, id := range x.URRs {
		all = append(all, ie.NewURRID(id))
	}
	for _, id := range x.QERs {
		all = append(all, ie.NewQERID(id))
	}
	for _, name := range x.Predefined {
		all = append(all, ie.NewActivatePredefinedRules(name))
	}
	return all
}

func (x pdi) elements() []*ie.IE {
	all := []*ie.IE{ie.NewSourceInterface(interfaces[x.Source])}
	if x.FTEID != nil {
		all = append(all, x.FTEID.element())
	}
	if x.Instance != "" {
		all = append(all, ie.NewNetworkInstance(x.Instance))
	}
	if x.UE4 != "" || x.UE6 != "" {
		all = append(all, x.address())
	}
	for _, filter := range x.SDF {
		all = append(all, ie.NewSDFFilter(filter.Flow, "", "", "", filter.ID))
	}
	if x.Application != "" {
		all = append(all, ie.NewApplicationID(x.Application))
	}
	for _, qfi := range x.QFIs {
		all = append(all, ie.NewQFI(qfi))
	}
	for _, route := range x.Routes {
		all = append(all, ie.NewFramedRoute(route))
	}
	return all
}

// address of the user: that of the destination unless the packet comes from the user
// (§8.2.62). "choose" asks the user plane for one.
func (x pdi) address() *ie.IE {
	var flags, length uint8
	v4, v6 := x.UE4, x.UE6
	if x.Source != "access" {
		flags |= 0x04
	}
	switch {
	case v4 == "choose":
		flags |= 0x10
	case v4 != "":
		flags |= 0x02
	}
	if prefix, network, err := net.ParseCIDR(v6); err == nil {
		v6 = prefix.String()
		bits, _ := network.Mask.Size()
		if length = uint8(bits); length != 64 {
			flags |= 0x40
		}
	}
	switch {
	case v6 == "choose":
		flags |= 0x20
	case v6 != "":
		flags |= 0x01
	}
	return ie.NewUEIPAddress(flags, v4, v6, 0, length)
}

func (x fteid) element() *ie.IE {
	var flags, id uint8
	v4, v6 := net.ParseIP(x.IPv4).To4(), net.ParseIP(x.IPv6)
	if v4 != nil || x.Choose == "v4" || x.Choose == "v4v6" {
		flags |= 0x01
	}
	if v6 != nil || x.Choose == "v6" || x.Choose == "v4v6" {
		flags |= 0x02
	}
	if x.Choose != "" {
		flags |= 0x04
	}
	if x.ChooseID != nil {
		flags |= 0x08
		id = *x.ChooseID
	}
	return ie.NewFTEID(flags, x.TEID, v4, v6, id)
}

func (x far) elements(group func(...*ie.IE) *ie.IE) []*ie.IE {
	all := []*ie.IE{ie.NewFARID(x.ID)}
	if x.Apply != nil {
		all = append(all, ie.NewApplyAction(octets(2, x.Apply, applyActions)...))
	}
	if x.Forward != nil {
		all = append(all, group(x.Forward.elements()...))
	}
	if x.BAR != nil {
		all = append(all, ie.NewBARID(*x.BAR))
	}
	return all
}

func (x forward) elements() []*ie.IE {
	var all []*ie.IE
	if x.Destination != "" {
		all = append(all, ie.NewDestinationInterface(interfaces[x.Destination]))
	}
	if x.Instance != "" {
		all = append(all, ie.NewNetworkInstance(x.Instance))
	}
	if h := x.Header; h != nil {
		description := uint16(0x0100)
		if h.IPv6 != "" {
			description = 0x0200
		}
		all = append(all, ie.NewOuterHeaderCreation(description, h.TEID, h.IPv4, h.IPv6, 0, 0, 0))
	}
	if x.Marking != nil {
		all = append(all, ie.NewTransportLevelMarking(*x.Marking))
	}
	if x.Redirect != "" {
		all = append(all, ie.NewRedirectInformation(2, x.Redirect)) // a URL
	}
	if x.Policy != "" {
		all = append(all, ie.NewForwardingPolicy(x.Policy))
	}
	if x.EndMarker {
		all = append(all, ie.NewPFCPSMReqFlags(0x02)) // SNDEM
	}
	return all
}

func (x qer) elements() []*ie.IE {
	all := []*ie.IE{ie.NewQERID(x.ID)}
	if x.Correlation != nil {
		all = append(all, ie.NewQERCorrelationID(*x.Correlation))
	}
	if x.Gate != nil {
		closed := map[string]uint8{"closed": 1}
		all = append(all, ie.NewGateStatus(closed[x.Gate.Uplink], closed[x.Gate.Downlink]))
	}
	if x.MBR != nil {
		all = append(all, ie.NewMBR(x.MBR.Uplink, x.MBR.Downlink))
	}
	if x.GBR != nil {
		all = append(all, ie.NewGBR(x.GBR.Uplink, x.GBR.Downlink))
	}
	if x.QFI != nil {
		all = append(all, ie.NewQFI(*x.QFI))
	}
	return all
}

func (x urr) elements() []*ie.IE {
	all := []*ie.IE{ie.NewURRID(x.ID)}
	if x.Method != nil {
		all = append(all, ie.New(ie.MeasurementMethod, octets(1, x.Method, methods)))
	}
	if x.Triggers != nil {
		all = append(all, ie.NewReportingTriggers(octets(3, x.Triggers, triggers)...))
	}
	if x.Period != nil {
		all = append(all, ie.NewMeasurementPeriod(seconds(*x.Period)))
	}
	if v := x.VolumeThreshold; v != nil {
		all = append(all, ie.NewVolumeThreshold(v.fields()))
	}
	if v := x.VolumeQuota; v != nil {
		all = append(all, ie.NewVolumeQuota(v.fields()))
	}
	if x.TimeThreshold != nil {
		all = append(all, ie.NewTimeThreshold(seconds(*x.TimeThreshold)))
	}
	if x.TimeQuota != nil {
		all = append(all, ie.NewTimeQuota(seconds(*x.TimeQuota)))
	}
	if x.HoldingTime != nil {
		all = append(all, ie.NewQuotaHoldingTime(seconds(*x.HoldingTime)))
	}
	if x.Information != nil {
		all = append(all, ie.New(ie.MeasurementInformation, octets(1, x.Information, information)))
	}
	for _, id := range x.Linked {
		all = append(all, ie.NewLinkedURRID(id))
	}
	return all
}

func (v volumes) fields() (flags uint8, total, uplink, downlink uint64) {
	if v.Total != nil {
		flags, total = flags|0x01, *v.Total
	}
	if v.Uplink != nil {
		flags, uplink = flags|0x02, *v.Uplink
	}
	if v.Downlink != nil {
		flags, downlink = flags|0x04, *v.Downlink
	}
	return flags, total, uplink, downlink
}

func (x bar) elements() []*ie.IE {
	all := []*ie.IE{ie.NewBARID(x.ID)}
	if x.Delay != nil {
		all = append(all, ie.NewDownlinkDataNotificationDelay(time.Duration(*x.Delay)*50*time.Millisecond))
	}
	if x.Count != nil {
		all = append(all, ie.NewSuggestedBufferingPacketsCount(*x.Count))
	}
	return all
}
