#!/usr/bin/env python3
"""Writes the dashboards for Grafana beside itself: `deploy/grafana/build.py [FOLDER]`.

Grafana stores a dashboard as JSON of a thousand lines. What differs between panels stands
here: a title, a unit, and the questions to Prometheus with their legends.
tests/end-to-end/prometheus.sh checks that the files are what this writes, and asks a real
Prometheus every question.
"""

import json
import sys
from pathlib import Path

WIDTH, HEIGHT = 12, 8  # of a panel; a dashboard is 24 wide
SOURCE = {"type": "prometheus", "uid": "${source}"}
RATE = "[$__rate_interval]"


def panel(title, unit, *questions, kind="timeseries", tells="", stack=False, wide=False):
    return dict(title=title, unit=unit, questions=questions, kind=kind, tells=tells, stack=stack, wide=wide)


def by(metric, labels, **where):
    """The rate of a counter of the chosen nodes, summed by labels."""
    chosen = "".join(f',{label}{value}' for label, value in where.items())
    return f'sum by ({labels}) (rate({metric}{{node=~"$node"{chosen}}}{RATE}))'


def mean(cycles, packets, labels):
    """One counter divided by another: the mean of what the first one adds up."""
    of = f'{{node=~"$node"}}{RATE}'
    return f"sum by ({labels}) (rate({cycles}{of})) / sum by ({labels}) (rate({packets}{of}))"


def quantile(share, metric, labels):
    return f'histogram_quantile({share}, sum by ({labels}, le) (rate({metric}_bucket{{node=~"$node"}}{RATE})))'


def gauge(metric, **where):
    chosen = "".join(f',{label}{value}' for label, value in where.items())
    return f'{metric}{{node=~"$node"{chosen}}}'


NODE = [
    panel("Packets received", "pps", (by("weft_packets_total", "node, port", direction='="rx"'), "{{node}} {{port}}"),
          tells="By port. What a worker received; packets that found the queue full are under drops."),
    panel("Packets sent", "pps", (by("weft_packets_total", "node, port", direction='="tx"'), "{{node}} {{port}}")),
    panel("Bits received", "bps", ("8 * " + by("weft_bytes_total", "node, port", direction='="rx"'), "{{node}} {{port}}")),
    panel("Bits sent", "bps", ("8 * " + by("weft_bytes_total", "node, port", direction='="tx"'), "{{node}} {{port}}")),
    panel("Drops by reason", "pps", (by("weft_drops_total", "node, reason, function, port"), "{{node}} {{reason}} {{function}}{{port}}"),
          tells="docs/functions explains the reasons of functions, `weft show drops` those of the node.", wide=True),
    panel("Share dropped", "percentunit",
          (by("weft_drops_total", "node") + " / " + by("weft_packets_total", "node", direction='="rx"'), "{{node}}")),
    panel("Receive queues full", "pps", (by("weft_drops_total", "node, port", reason='="rx_missed"'), "{{node}} {{port}}"),
          tells="The node is too slow for its traffic."),
    panel("Cycles per packet by stage", "none",
          (mean("weft_stage_cycles_total", "weft_stage_sampled_packets_total", "node, worker, stage"), "{{node}} {{worker}} {{stage}}"),
          tells="From a sample of the bursts; forward is without the functions.", stack=True),
    panel("Cycles per packet by function", "none",
          (mean("weft_function_cycles_total", "weft_function_sampled_packets_total", "node, function"), "{{node}} {{function}}")),
    panel("Packets by function", "pps", (by("weft_packets_total", "node, function, kind", function='!=""'), "{{node}} {{function}} ({{kind}})")),
    panel("Delay in the node", "s",
          (quantile(0.5, "weft_burst_duration_seconds", "node"), "{{node}} median"),
          (quantile(0.99, "weft_burst_duration_seconds", "node"), "{{node}} 99 %"),
          tells="From the reception of a burst until its last packet was given to a device; one burst in 16 is timed."),
    panel("Packets per burst", "none",
          (quantile(0.5, "weft_burst_packets", "node, worker"), "{{node}} {{worker}} median"),
          (quantile(0.99, "weft_burst_packets", "node, worker"), "{{node}} {{worker}} 99 %"),
          tells="Full bursts of 32 mean that a worker has more to do than it can carry at once."),
    panel("Share of polls that found packets", "percentunit",
          (by("weft_burst_packets_count", "node, worker") + " / (" + by("weft_burst_packets_count", "node, worker") + " + "
           + by("weft_empty_polls_total", "node, worker") + ")", "{{node}} {{worker}}"),
          tells="Near 100 % the worker is at its limit."),
    panel("Free packet buffers", "percentunit", (gauge("weft_buffers_available") + " / " + gauge("weft_buffers"), "{{node}}")),
    panel("Users", "none", (gauge("weft_users"), "{{node}}")),
    panel("GTP-U messages", "pps", (by("weft_gtpu_messages_total", "node, message, direction"), "{{node}} {{message}} {{direction}}")),
    panel("GTP-U peers that do not answer", "none", (gauge("weft_gtpu_peers_down"), "{{node}}")),
    panel("Answers withheld", "pps", (by("weft_withheld_answers_total", "node, cause"), "{{node}} {{cause}}"),
          tells="ICMP errors and GTP-U messages beyond the node's limits."),
    panel("Panics", "none", (f'increase(weft_panics_total{{node=~"$node"}}[1h])', "{{node}}"), tells="In functions, within an hour."),
]

HANDOVER = [
    panel("Users by state", "none", (gauge("weft_handover_users"), "{{node}} {{state}}"), wide=True,
          tells="Users that the node owns, takes or gives away (docs/handover.md, changes of state)."),
    panel("Users that arrived", "pps", (by("weft_handover_total", "node", event='="imported"'), "{{node}}")),
    panel("Users that left", "pps", (by("weft_handover_total", "node", event='="exported"'), "{{node}}")),
    panel("Moves that did not go as they should", "pps",
          (by("weft_handover_total", "node, event", event='=~"resumed|context_lost|.*_timeout|resent|stale"'), "{{node}} {{event}}")),
    panel("Users behind gates", "none", (gauge("weft_handover_gated_users"), "{{node}}")),
    panel("Packets that waited at gates", "pps", (by("weft_handover_waited_packets_total", "node"), "{{node}}")),
    panel("Kept packets that moved with their users", "pps", (by("weft_moved_packets_total", "node, direction"), "{{node}} {{direction}}")),
    panel("Packets without an owner, or of an earlier move", "pps",
          (by("weft_drops_total", "node, reason", reason='=~"no_owner|stale_epoch|gate_full"'), "{{node}} {{reason}}")),
]

PFCP = [
    panel("Sessions", "none", (gauge("weft_pfcp_sessions"), "{{node}}")),
    panel("Control planes", "none", (gauge("weft_pfcp_associations"), "{{node}} {{state}}")),
    panel("Changes of sessions", "ops", (by("weft_pfcp_session_changes_total", "node, change"), "{{node}} {{change}}")),
    panel("Session reports", "ops", (by("weft_pfcp_reports_total", "node, report"), "{{node}} {{report}}")),
    panel("Requests received", "ops", (by("weft_pfcp_messages_total", "node, message", direction='="rx"', message='=~".*_request"'), "{{node}} {{message}}")),
    panel("Responses sent that accept", "ops",
          (by("weft_pfcp_messages_total", "node, message", direction='="tx"', cause='="1"'), "{{node}} {{message}}")),
    panel("Responses sent that refuse, by cause", "ops",
          (by("weft_pfcp_messages_total", "node, message, cause", direction='="tx"', cause='=~"6.|7.|8."'), "{{node}} {{message}} {{cause}}"),
          tells="Numbers of TS 29.244 §8.2.1: 65 no such session, 72 no association, 73 a rule failed, 75 no resources, 76 not supported.", wide=True),
    panel("Responses received that refuse, by cause", "ops",
          (by("weft_pfcp_messages_total", "node, message, cause", direction='="rx"', cause='=~"6.|7.|8."'), "{{node}} {{message}} {{cause}}")),
    panel("Requests sent again or without an answer", "ops",
          (by("weft_pfcp_retransmissions_total", "node"), "{{node}} sent again"),
          (by("weft_pfcp_unanswered_requests_total", "node"), "{{node}} without an answer"),
          (by("weft_pfcp_repeated_requests_total", "node"), "{{node}} repeated by peers"),
          tells="T1 passed, N1 was reached, or a control plane repeated a request."),
    panel("Messages dropped", "ops", (by("weft_pfcp_dropped_messages_total", "node, reason"), "{{node}} {{reason}}"),
          tells="docs/metrics.md explains the reasons."),
    panel("Control planes lost", "none",
          ('increase(weft_pfcp_associations_lost_total{node=~"$node"}[1h])', "{{node}} lost"),
          ('increase(weft_pfcp_hijacks_refused_total{node=~"$node"}[1h])', "{{node}} under another's name"),
          tells="Within an hour: control planes that restarted or did not answer, and those that used the name of another."),
    panel("Transactions", "none", (gauge("weft_pfcp_transactions"), "{{node}} {{side}}")),
]

SITE = [
    panel("Nodes connected", "none", ("weft_controller_node_connected", "{{node}}"), kind="stat"),
    panel("Users that wait for their nodes", "none", ("weft_controller_users_waiting", "waiting"), kind="stat"),
    panel("Users by node", "none", ("weft_controller_node_users", "{{node}}"), stack=True),
    panel("Packets by node", "pps", (f"rate(weft_controller_node_received_packets_total{RATE})", "{{node}} received"),
          (f"rate(weft_controller_node_dropped_packets_total{RATE})", "{{node}} dropped"), tells="As nodes say themselves."),
    panel("How busy nodes are", "percentunit", ("weft_controller_node_busy_ratio", "{{node}}"),
          tells="The share of its busiest core that packets take, as each node says."),
    panel("Users that move, by node", "none", ("weft_controller_node_moving", "{{node}}")),
    panel("Moves", "pps", (f"sum(rate(weft_controller_exported_total{RATE}))", "given away"),
          (f"sum(rate(weft_controller_imported_total{RATE}))", "taken")),
    panel("Moves that did not go as they should", "pps",
          *((f"sum(rate(weft_controller_{name}_total{RATE}))", name.replace("_", " "))
            for name in ("resumed", "context_lost", "no_owner", "uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"))),
    panel("Messages", "pps", (f"sum(rate(weft_controller_messages_sent_total{RATE}))", "sent"),
          (f"sum(rate(weft_controller_messages_received_total{RATE}))", "received"),
          (f"sum(rate(weft_controller_resent_total{RATE}))", "sent again"),
          (f"sum(rate(weft_controller_stale_total{RATE}))", "stale")),
    panel("Messages dropped", "pps",
          *((f"sum(rate(weft_controller_{name}_total{RATE}))", name.replace("_", " "))
            for name in ("messages_unconnected", "messages_queue_full", "messages_unread", "connections_violated"))),
    panel("Load by node", "pps", ('sum by (node) (rate(weft_packets_total{direction="rx"}' + RATE + "))", "{{node}}")),
    panel("Drops by node", "pps", (f"sum by (node) (rate(weft_drops_total{RATE}))", "{{node}}")),
]

DASHBOARDS = {
    "node": ("Weft: nodes", NODE, "weft_users"),
    "handover": ("Weft: handover", HANDOVER, "weft_users"),
    "pfcp": ("Weft: PFCP", PFCP, "weft_pfcp_sessions"),
    "site": ("Weft: controller and site", SITE, None),
}


def drawn(number, spec, x, y):
    kind = spec["kind"]
    custom = {"fillOpacity": 10, "showPoints": "never", "stacking": {"mode": "normal" if spec["stack"] else "none"}}
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for at, (expression, legend) in enumerate(spec["questions"])
    ]
    return {
        "id": number,
        "type": kind,
        "title": spec["title"],
        "description": spec["tells"],
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": 24 if spec["wide"] else WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": spec["unit"], "min": 0, **({"custom": custom} if kind == "timeseries" else {})},
            "overrides": [],
        },
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}} if kind == "timeseries" else {},
        "targets": targets,
    }


def panels(specs):
    x = y = 0
    out = []
    for number, spec in enumerate(specs, 1):
        if spec["wide"] and x:
            x, y = 0, y + HEIGHT
        out.append(drawn(number, spec, x, y))
        x += 24 if spec["wide"] else WIDTH
        if x >= 24:
            x, y = 0, y + HEIGHT
    return out


def variables(metric):
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    if metric is None:
        return [source]
    query = f"label_values({metric}, node)"
    node = {
        "name": "node", "label": "Node", "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": "node"}, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }
    return [source, node]


def dashboard(name):
    title, specs, metric = DASHBOARDS[name]
    return {
        "uid": f"weft-{name}",
        "title": title,
        "tags": ["weft"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables(metric)},
        "links": [{"title": "Weft", "type": "dashboards", "tags": ["weft"], "asDropdown": True}],
        "annotations": {"list": []},
        "panels": panels(specs),
    }


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for name in DASHBOARDS:
        text = json.dumps(dashboard(name), indent=1) + "\n"
        (folder / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
