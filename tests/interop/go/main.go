// A PFCP control plane (3GPP TS 29.244) for tests, whose messages are go-pfcp's and not
// Weft's.
//
//	control-plane LOCAL REMOTE
//
// speaks from LOCAL, port 8805, to the user plane at REMOTE, port 8805. It reads a command
// a line from standard input and tells of what it receives in a line each on standard
// output, both JSON; tests/interop/README.md lists them. It answers requests of the user
// plane by itself and sends its own again (T1, N1; §6.4). It ends with its input.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

const port = 8805

// Retransmission (§6.4): a request is sent again after t1, and n1 times in all.
const (
	t1 = time.Second
	n1 = 5
)

// command is one line of standard input.
type command struct {
	Do       string   `json:"do"`
	Session  string   `json:"session"`
	SEID     *uint64  `json:"seid"` // in place of that of the session
	Node     string   `json:"node"` // in place of LOCAL
	Rules    rules    `json:"rules"`
	Query    []uint32 `json:"query"`
	QueryAll bool     `json:"queryAll"`
	Hex      string   `json:"hex"`
	On       bool     `json:"on"`
	Recovery int64    `json:"recovery"` // seconds since 1970, in place of the start
}

// session is one that this control plane has established.
type session struct {
	name   string
	local  uint64
	remote uint64
}

// request is one that waits for its answer.
type request struct {
	do       string
	session  *session
	bytes    []byte
	sent     time.Time
	first    time.Time
	attempts int
}

type controlPlane struct {
	wire     *net.UDPConn
	local    net.IP
	remote   *net.UDPAddr
	started  time.Time
	sequence uint32
	pending  map[uint32]*request
	sessions map[string]*session
	bySEID   map[uint64]*session
	answered map[uint32]bool // sequence numbers of the user plane's requests
	deaf     bool            // takes nothing and answers nothing
	last     []byte          // what was sent last, to repeat it
}

type event map[string]any

func tell(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"event":"error","what":%q}`, err))
	}
	fmt.Println(string(line))
}

func failure(what string, err error) {
	tell(event{"event": "error", "what": what, "why": err.Error()})
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: control-plane LOCAL REMOTE")
		os.Exit(2)
	}
	local, remote := net.ParseIP(os.Args[1]), net.ParseIP(os.Args[2])
	wire, err := net.ListenUDP("udp", &net.UDPAddr{IP: local, Port: port})
	if err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
	c := &controlPlane{
		wire: wire, local: local, remote: &net.UDPAddr{IP: remote, Port: port},
		started: time.Now(), sequence: uint32(os.Getpid()) & 0xffff,
		pending: map[uint32]*request{}, sessions: map[string]*session{},
		bySEID: map[uint64]*session{}, answered: map[uint32]bool{},
	}
	tell(event{"event": "ready", "codec": "go-pfcp"})
	c.run()
}

func (c *controlPlane) run() {
	lines, datagrams := make(chan []byte), make(chan []byte, 1024)
	go func() {
		input := bufio.NewScanner(os.Stdin)
		input.Buffer(nil, 1<<20)
		for input.Scan() {
			lines <- append([]byte(nil), input.Bytes()...)
		}
		close(lines)
	}()
	go func() {
		buffer := make([]byte, 65536)
		for {
			n, _, err := c.wire.ReadFromUDP(buffer)
			if err != nil {
				continue // an ICMP error of a user plane that is not there
			}
			datagrams <- append([]byte(nil), buffer[:n]...)
		}
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			c.obey(line)
		case datagram := <-datagrams:
			if !c.deaf {
				c.take(datagram)
			}
		case now := <-tick.C:
			c.sendAgain(now)
		}
	}
}

// obey does what a line of standard input says.
func (c *controlPlane) obey(line []byte) {
	var do command
	if err := json.Unmarshal(line, &do); err != nil {
		failure("command", err)
		return
	}
	s := c.sessions[do.Session]
	if do.Do == "establish" {
		s = c.newSession(do.Session)
	} else if s == nil && do.SEID != nil {
		s = &session{name: do.Session, remote: *do.SEID}
	}
	sequence := c.nextSequence()
	var request message.Message
	switch do.Do {
	case "associate":
		if do.Recovery != 0 {
			c.started = time.Unix(do.Recovery, 0)
		}
		request = message.NewAssociationSetupRequest(sequence, c.nodeID(do.Node),
			ie.NewRecoveryTimeStamp(c.started), ie.NewCPFunctionFeatures(0))
	case "release":
		request = message.NewAssociationReleaseRequest(sequence, c.nodeID(do.Node))
	case "heartbeat":
		request = message.NewHeartbeatRequest(sequence, ie.NewRecoveryTimeStamp(c.started), nil)
	case "establish":
		request = message.NewSessionEstablishmentRequest(0, 0, 0, sequence, 0,
			append([]*ie.IE{c.nodeID(do.Node), c.fseid(s.local)}, do.Rules.elements()...)...)
	case "modify", "delete":
		if s == nil {
			failure(do.Do, fmt.Errorf("there is no session %q", do.Session))
			return
		}
		seid := s.remote
		if do.SEID != nil {
			seid = *do.SEID
		}
		if do.Do == "delete" {
			request = message.NewSessionDeletionRequest(0, 0, seid, sequence, 0)
		} else {
			request = message.NewSessionModificationRequest(0, 0, seid, sequence, 0,
				append(do.Rules.elements(), queries(do)...)...)
		}
	case "send":
		bytes, err := hex.DecodeString(do.Hex)
		if err != nil {
			failure("hex", err)
			return
		}
		c.send(bytes)
		return
	case "repeat":
		c.send(c.last)
		return
	case "deaf":
		c.deaf = do.On
		return
	default:
		failure("command", fmt.Errorf("%q is not known", do.Do))
		return
	}
	c.ask(do.Do, s, sequence, request)
}

func (c *controlPlane) newSession(name string) *session {
	s := &session{name: name, local: uint64(len(c.bySEID) + 1)}
	c.sessions[name], c.bySEID[s.local] = s, s
	return s
}

func (c *controlPlane) nextSequence() uint32 {
	c.sequence = (c.sequence + 1) & 0xffffff
	return c.sequence
}

func (c *controlPlane) nodeID(node string) *ie.IE {
	if node == "" {
		node = c.local.String()
	}
	return ie.NewNodeIDHeuristic(node)
}

func (c *controlPlane) fseid(seid uint64) *ie.IE {
	if v4 := c.local.To4(); v4 != nil {
		return ie.NewFSEID(seid, v4, nil)
	}
	return ie.NewFSEID(seid, nil, c.local)
}

// queries is what a modification asks to be reported at once (§7.5.4.10).
func queries(do command) []*ie.IE {
	var elements []*ie.IE
	for _, id := range do.Query {
		elements = append(elements, ie.NewQueryURR(ie.NewURRID(id)))
	}
	if do.QueryAll {
		elements = append(elements, ie.NewPFCPSMReqFlags(0x04)) // QAURR
	}
	return elements
}

func (c *controlPlane) ask(do string, s *session, sequence uint32, m message.Message) {
	bytes, err := encode(m)
	if err != nil {
		failure(do, err)
		return
	}
	now := time.Now()
	c.pending[sequence] = &request{do: do, session: s, bytes: bytes, sent: now, first: now, attempts: 1}
	c.last = bytes
	c.send(bytes)
}

func encode(m message.Message) ([]byte, error) {
	bytes := make([]byte, m.MarshalLen())
	return bytes, m.MarshalTo(bytes)
}

func (c *controlPlane) send(bytes []byte) {
	if _, err := c.wire.WriteToUDP(bytes, c.remote); err != nil {
		failure("send", err)
	}
}

func (c *controlPlane) sendAgain(now time.Time) {
	for sequence, r := range c.pending {
		if now.Sub(r.sent) < t1 {
			continue
		}
		if r.attempts == n1 {
			delete(c.pending, sequence)
			e := event{"event": "timeout", "to": r.do}
			name(e, r.session)
			tell(e)
			continue
		}
		r.attempts++
		r.sent = now
		c.send(r.bytes)
	}
}

func name(e event, s *session) {
	if s != nil {
		e["session"] = s.name
	}
}
