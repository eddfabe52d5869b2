#!/usr/bin/env bash
# The Helm chart. What it makes of the values in deploy/helm/weft/ci stands in tests/packages/chart;
# the program under test reads all files of nodes and controllers in it, and the pods of one of
# them run as Kubernetes would run them. Where Helm and kubeconform are at hand (`make test-chart`
# builds them), the chart is linted, makes just that, and is held against the schemas of Kubernetes.
#
#     tests/packages/chart.sh            # all checks
#     tests/packages/chart.sh --write    # writes tests/packages/chart anew, with Helm
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
root=$(cd ../.. && pwd)
export WEFT=${WEFT:-$root/target/release/weft}
PATH=$PATH:${CARGO_TARGET_DIR:-$root/target}/tools/bin
readonly CHART=$root/deploy/helm/weft KUBERNETES=1.31.0
releases=(site one-controller upf)

# rendered RELEASE: what the chart makes of its values.
rendered() {
    helm template "$1" "$CHART" --namespace default --kube-version "$KUBERNETES" -f "$CHART/ci/$1.yaml"
}

if [ "${1:-}" = --write ]; then
    for release in "${releases[@]}"; do
        rendered "$release" >"chart/$release.yaml" || exit 1
    done
    exit
fi

gain_privileges "$@"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# files_are_read RELEASE: each file in a ConfigMap is that of a node or a controller.
files_are_read() {
    python3 - "chart/$1.yaml" "$work/$1" <<'PYTHON' || return 1
import sys
from pathlib import Path

import yaml

for document in yaml.safe_load_all(Path(sys.argv[1]).read_text()):
    if document["kind"] == "ConfigMap":
        folder = Path(sys.argv[2], document["metadata"]["name"])
        folder.mkdir(parents=True)
        for name, text in document["data"].items():
            (folder / name).write_text(text)
PYTHON
    local file count=0
    for file in "$work/$1"/*/*.yaml; do
        "$WEFT" check "$file" || return 1
        count=$((count + 1))
    done
    [ "$count" -gt 1 ]
}

# is_same RELEASE
is_same() {
    diff "chart/$1.yaml" <(rendered "$1") || {
        echo "chart.sh --write writes it anew"
        return 1
    }
}

# fits_kubernetes RELEASE
fits_kubernetes() {
    kubeconform -strict -summary \
        -schema-location "$PWD/kubernetes-schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" "chart/$1.yaml"
}

# is_refused REASON ARGUMENTS...: values that do not fit each other.
is_refused() {
    local reason=$1 said
    shift
    said=$(helm template x "$CHART" --kube-version "$KUBERNETES" "$@" 2>&1) && return 1
    [[ $said == *"$reason"* ]] || {
        echo "$said"
        return 1
    }
}

# pods_live: in networks and mounts of their own, which end with them.
pods_live() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --net --mount --pid --fork --kill-child --mount-proc bash -ec '
        mkdir "$2/etc" "$2/work"
        mount -t overlay overlay -o "lowerdir=/etc,upperdir=$2/etc,workdir=$2/work" /etc
        mount -t tmpfs run /run && mount -t tmpfs lib /var/lib
        ip link set lo up
        # Pods have a /tmp and a /run of their own, which may hide the program.
        mount -t tmpfs pods /mnt && touch /mnt/weft && mount --bind "$1" /mnt/weft
        exec python3 pods.py chart/one-controller.yaml /mnt/weft /mnt' bash "$WEFT" "$work"
}

for release in "${releases[@]}"; do
    check "the program reads all files of $release" files_are_read "$release"
done
if [ "$WEFT_PRIVILEGE" = user ]; then
    skip "pods run" "they have users of their own, which takes root"
else
    mount -t tmpfs weft "$work" 2>/dev/null && trap 'umount "$work"; rm -rf "$work"' EXIT
    pods=$(pods_live 2>&1)
    while read -r verdict rest; do
        case $verdict in
        pass) pass "$rest" ;;
        fail) fail "${rest%%: *}" "${rest#*: }" ;;
        *) [[ "$verdict $rest" == *" passed, "* ]] || printf '     %s\n' "$verdict $rest" ;;
        esac
    done <<<"$pods"
    [[ $pods == *" passed, "* ]] || fail "pods run" "they did not come to their end"
fi
if command -v helm >/dev/null && command -v kubeconform >/dev/null; then
    check "helm lint" helm lint --strict "$CHART" -f "$CHART/ci/site.yaml"
    for release in "${releases[@]}"; do
        check "the chart makes $release as it stands here" is_same "$release"
        check "Kubernetes knows all fields of $release" fits_kubernetes "$release"
    done
    several=(--set controllers.replicas=2 --set tokensSecret=t --set plaintext=true)
    check "several controllers need etcd" is_refused "several controllers need etcd" "${several[@]}"
    check "tokens are needed" is_refused "tokensSecret: " --set controllers.replicas=1
    check "certificates are needed" is_refused "nodesSecret and controllersSecret" \
        --set controllers.replicas=1 --set tokensSecret=t
    check "two nodes of one number are refused" is_refused "has the number 2 already" \
        -f "$CHART/ci/site.yaml" --set nodeGroups.anchor.firstNumber=2
    check "keys that there are not are refused" is_refused "Additional property replica is not allowed" \
        --set nodeGroups.a.replica=1
else
    skip "what Helm and kubeconform say" "make test-chart builds them"
fi
close_report
