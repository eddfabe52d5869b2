# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables for the script, and of it, netns.sh and node.sh
# A session whose usage is measured, for scripts that kill or replace its user plane. To be
# sourced behind pfcp.sh; the script sets UE4, the user's address, and TEID, the base station's.

# establish SESSION UE4: with a rule that reports every 20,000 octets.
establish() {
    cat <<JSON
{"do": "establish", "session": "$1", "rules": {
    "createPdr": [
        {"id": 1, "precedence": 200, "removal": 0, "far": 1, "urr": [1],
         "pdi": {"source": "access", "instance": "access", "ue4": "$2", "fteid": {"choose": "v4"}}},
        {"id": 2, "precedence": 200, "far": 2, "urr": [1],
         "pdi": {"source": "core", "instance": "internet", "ue4": "$2"}}],
    "createFar": [
        {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "internet"}},
        {"id": 2, "apply": ["FORW"],
         "forward": {"destination": "access", "instance": "access", "header": $(header "$TEID" "$ADDRESS_A4")}}],
    "createUrr": [{"id": 1, "method": ["VOLUM"], "triggers": ["VOLTH"], "volumeThreshold": {"total": 20000}}],
    "pdnType": 1}}
JSON
}

attach() {
    accepted smf '{"do": "associate"}' && accepted smf "$(establish ue "$UE4")" || return 1
    teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    gateway=$(of_answer '.created[] | select(.pdr == 1).ipv4')
}

# numbers: UR-SEQN of all reports of the rule that the control plane has got, in order.
numbers() {
    jq -Rc 'fromjson? | select(.session == "ue") | .usage[]? | select(.urr == 1) | .number' \
        "$netns_work/smf.told"
}
