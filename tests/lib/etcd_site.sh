# shellcheck shell=bash
# The site of `handover_site.sh` with a third station, two replicas of its controller and three
# members of etcd, each in a namespace of its own beside the others in the network `oam`:
#
#     station-c 192.0.2.5   control-a 192.0.2.1   control-b 192.0.2.8   etcd-1, -2, -3 192.0.2.11 to .13
#
# etcd asks for certificates of clients and of other members. To be sourced by scripts of
# end-to-end, behind the same calls as handover_site.sh, with `lay_out_etcd` and
# `write_etcd_files` after those of the same name there.

# shellcheck source-path=SCRIPTDIR source=handover_site.sh
. ../lib/handover_site.sh

members=(1 2 3)
# What etcd may keep, so that a test can fill it.
quota=$((24 << 20))
# The library that changes the time of day of a program (Debian package libfaketime), or nothing.
faketime=$(ls /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null | head -1)

lay_out_etcd() {
    local member
    make_namespace ctl2
    attach ctl2 oam oam 8 192.0.2.8
    for member in "${members[@]}"; do
        make_namespace "e$member"
        attach "e$member" oam oam "$(printf '%x' $((member + 8)))" "192.0.2.1$member"
    done
    make_namespace sc
    attach sc ran ran c
    attach sc oam oam d 192.0.2.5
    make_link sc radio 02:00:00:00:13:01 ue rc 02:00:00:00:13:02 1500
    for side in ctl2 sc "${members[@]/#/e}"; do
        in_ns "$side" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    done
}

# write_third: station-c, which the others and the controller know.
write_third() {
    local name
    "$WEFT" ctl certificates issue --folder "$work/certificates" station-c >/dev/null || return 1
    sed -e 's/station-a/station-c/' -e 's/^  node: 2/  node: 4/' -e 's/10.1.0.1/10.1.0.3/' \
        -e 's/{node: 3, address: 10.1.0.2}/{node: 2, address: 10.1.0.1}\n    - &/' \
        "$work/station-a.yaml" >"$work/station-c.yaml"
    sed -i "s|station-a|station-c|g" "$work/station-c.yaml"
    for name in gateway station-a station-b; do
        sed -i 's/^  peers:$/&\n    - {node: 4, address: 10.1.0.3}/' "$work/$name.yaml"
    done
    # One user more is added and removed again.
    sed -i 's/count: 1000,/count: 1001,/' "$work"/{gateway,station-?}.yaml
    sed -i 's/^  station-b: .*/&\n  station-c: {number: 4, address: 192.0.2.5:9473}/' "$work/site.yaml"
    write_command station-c sc 192.0.2.5
}

# sign NAME ADDRESSES: a certificate that etcd and its clients take.
sign() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1-key.pem" -out "$1.csr" 2>/dev/null &&
        printf 'subjectAltName = %s\nextendedKeyUsage = serverAuth, clientAuth\n' "$2" >"$1.names" &&
        openssl x509 -req -days 2 -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial \
            -extfile "$1.names" -out "$1.pem" 2>/dev/null
}

# etcd_certificates: those of members and of controllers.
etcd_certificates() {
    mkdir -p "$work/etcd" && cd "$work/etcd" || return 1
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=etcd \
        -keyout ca-key.pem -out ca.pem 2>/dev/null &&
        sign member "IP:192.0.2.11, IP:192.0.2.12, IP:192.0.2.13" && sign client "DNS:site"
}

write_etcd_files() {
    (etcd_certificates) || return 1
    replica control-a 192.0.2.1 ctl && replica control-b 192.0.2.8 ctl2 || return 1
    local member name
    for member in "${members[@]}"; do
        write_member "$member"
    done
    for name in gateway station-a station-b station-c; do
        sed -i 's/--handover-controller 192.0.2.1:9471/&,192.0.2.8:9471/' "$work/$name.start"
    done
    # cut.start SIDE ADDRESS...: no packet between it and these; join.start SIDE: again.
    {
        printf 'side=$1\nshift\naddresses=$(echo "$@" | tr " " ,)\n'
        printf '%s <<EOF\n' "ip netns exec \"$(ns "")\$side\" nft -f -"
        printf 'table inet cut {\n chain in { type filter hook input priority 0; ip saddr { $addresses } drop; }\n'
        printf ' chain out { type filter hook output priority 0; ip daddr { $addresses } drop; }\n}\nEOF\n'
    } >"$work/cut.start"
    printf 'exec ip netns exec "%s$1" nft delete table inet cut\n' "$(ns "")" >"$work/join.start"
    write_alarm
}

# replica NAME ADDRESS SIDE
replica() {
    local endpoints='https://192.0.2.11:2379, https://192.0.2.12:2379, https://192.0.2.13:2379'
    local tls='certificate: etcd/client.pem, key: etcd/client-key.pem, authority: etcd/ca.pem'
    sed -e "s|^listen: .*|listen: $2:9471|" -e "s|^api: {listen: [^,]*|api: {listen: $2:9472|" \
        -e "s|^records: .*|etcd: {endpoints: [$endpoints], tls: {$tls}}\nreplica: {name: $1, address: 'http://$2:9472'}|" \
        "$work/site.yaml" >"$work/$1.yaml" &&
        echo +0 >"$work/$1.clock" &&
        printf 'exec ip netns exec %q env %s %q control %q\n' "$(ns "$3")" "$(skewed "$1")" "$WEFT" \
            "$work/$1.yaml" >"$work/$1.start"
}

# skewed NAME: an environment in which the time of day is what the file NAME.clock adds to it.
skewed() {
    [ -z "$faketime" ] || printf 'LD_PRELOAD=%q FAKETIME_TIMESTAMP_FILE=%q FAKETIME_NO_CACHE=1 %s' \
        "$faketime" "$work/$1.clock" FAKETIME_DONT_FAKE_MONOTONIC=1
}

# write_member NUMBER
write_member() {
    local own=192.0.2.1$1 member cluster='' pem=$work/etcd/member
    for member in "${members[@]}"; do
        cluster+="${cluster:+,}etcd-$member=https://192.0.2.1$member:2380"
    done
    {
        printf 'exec ip netns exec %q etcd --name etcd-%s --data-dir %q --logger zap --log-level error \\\n' \
            "$(ns "e$1")" "$1" "$work/etcd/data-$1"
        printf '    --listen-client-urls https://%s:2379 --advertise-client-urls https://%s:2379 \\\n' "$own" "$own"
        printf '    --listen-peer-urls https://%s:2380 --initial-advertise-peer-urls https://%s:2380 \\\n' "$own" "$own"
        printf '    --heartbeat-interval 50 --election-timeout 500 --initial-cluster %s --initial-cluster-state new --quota-backend-bytes %s \\\n' "$cluster" "$quota"
        printf '    --cert-file %s.pem --key-file %s-key.pem --trusted-ca-file %q --client-cert-auth \\\n' \
            "$pem" "$pem" "$work/etcd/ca.pem"
        printf '    --peer-cert-file %s.pem --peer-key-file %s-key.pem --peer-trusted-ca-file %q --peer-client-cert-auth\n' \
            "$pem" "$pem" "$work/etcd/ca.pem"
    } >"$work/etcd-$1.start"
}

# write_alarm: fill.start uses up the quota of etcd, and free.start gives it back.
write_alarm() {
    local ctl
    ctl="ip netns exec $(ns ctl) env ETCDCTL_API=3 etcdctl --cacert $work/etcd/ca.pem --cert $work/etcd/client.pem"
    ctl+=" --key $work/etcd/client-key.pem --endpoints https://192.0.2.11:2379,https://192.0.2.12:2379,https://192.0.2.13:2379"
    head -c 1000000 /dev/zero | tr '\0' x >"$work/etcd/much"
    cat >"$work/fill.start" <<EOF
for _ in \$(seq 60); do
    $ctl put rubbish <$work/etcd/much >/dev/null 2>&1 || { $ctl alarm list | grep -q NOSPACE && exit 0; }
done
exit 1
EOF
    cat >"$work/free.start" <<EOF
$ctl del rubbish >/dev/null || exit 1
revision=\$($ctl get nothing -w json | grep -o '"revision":[0-9]*' | cut -d: -f2)
$ctl compact "\$revision" && $ctl defrag && $ctl alarm disarm
EOF
    printf 'exec %s endpoint status -w json\n' "$ctl" >"$work/status.start"
}
