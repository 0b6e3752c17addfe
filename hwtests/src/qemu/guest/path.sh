# netns a (eth0) - wire 0 - $A, weir, $B - wire 1 - netns b (eth1): real TCP through weir, up and down in turn.
to_vfio "$A" "$B"
mount --make-rshared /run
mkdir -p /run/netns
for end in a b; do
    ip netns add $end
    ip -n $end link set lo up
done
ip link set eth0 netns a
ip link set eth1 netns b
ip -n a address add 192.0.2.1/24 dev eth0
ip -n b address add 192.0.2.2/24 dev eth1
ip -n a link set eth0 up
ip -n b link set eth1 up

echo "starting weir"
# One CPU for all, shared alike: a forwarder that comes after all others (chrt --idle) lets a burst of the sender pile up
# in the emulated wire, for more than a second.
weir run weir.toml --name vm >/tmp/weir.log 2>&1 &
weir=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ! weir show vm >/dev/null 2>&1 || break
    sleep 0.5
done
weir show vm >/dev/null || { cat /tmp/weir.log; exit 1; }

a() { ip netns exec a "$@"; }
b() { ip netns exec b "$@"; }
# The first packets wait for links and addresses.
a ping -n -q -c 1 -w 10 192.0.2.2 >/dev/null || { cat /tmp/weir.log; weir show vm; exit 1; }
echo "idle ping"
a ping -n -q -i 0.02 -c 100 192.0.2.2 >/tmp/report/ping-idle
b iperf3 --server --bind 192.0.2.2 >/tmp/iperf3.log 2>&1 &
sleep 1
for way in up down; do
    echo "TCP $way"
    reverse=
    [ $way = up ] || reverse=--reverse
    a ping -n -q -i 0.02 -w "$SECONDS_OF_LOAD" 192.0.2.2 >"/tmp/report/ping-$way" &
    pings=$!
    a iperf3 --client 192.0.2.2 --json --parallel 4 --omit 1 --time "$SECONDS_OF_LOAD" $reverse >"/tmp/report/tcp-$way"
    wait $pings
done
weir show vm --json >/tmp/report/show
kill -INT $weir
wait $weir
