# The rig `pci`: $PORT under test, $PEER on the same wire, both the kernel's before and after each stage.
rig() { hwtests --rigs . run "$@" --rig pci.toml --port "$PORT" --peer "$PEER" --out "/tmp/out-$stage" --weir "$weir"; }
driver() { basename "$(readlink "/sys/bus/pci/devices/$1/driver" || echo none)"; }
interface() { for entry in "/sys/bus/pci/devices/$1/net/"*; do [ ! -e "$entry" ] || echo "${entry##*/}"; done; }
has_line() { while read -r line; do case $line in *"$1"*) return 0 ;; esac; done <"$2"; return 1; }
override() { cat "/sys/bus/pci/devices/$1/driver_override"; }
is_back() {
    [ "$(driver "$PORT") $(driver "$PEER")" = "igb igb" ] && [ "$(override "$PORT")" = "(null)" ] &&
        [ -n "$(interface "$PEER")" ]
}

# What is left when a stage is over: what a killed run leaves to others takes a while.
after() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        ! is_back || break
        sleep 0.5
    done
    {
        echo "status $1"
        echo "port $(driver "$PORT"), peer $(driver "$PEER")"
        echo "override $(override "$PORT")"
        echo "peer flags $(cat "/sys/class/net/$(interface "$PEER")/flags")"
        cat "/tmp/log-$stage"
    } >"/tmp/report/$stage" 2>&1
}

weir=/usr/bin/weir
ip link set "$(interface "$PEER")" up

stage=refused
ip address add 192.0.2.9/24 dev "$(interface "$PORT")"
rig burst --case cake >"/tmp/log-$stage" 2>&1 && status=0 || status=$?
after $status
ip address flush dev "$(interface "$PORT")"

stage=burst
echo "stage $stage"
rig burst --case cake --repeats 1 >"/tmp/log-$stage" 2>&1 && status=0 || status=$?
after $status
cat "/tmp/out-$stage/report.md" >/tmp/report/burst.md || true

stage=failed
echo "stage $stage"
printf '#!/bin/sh\necho no port; exit 3\n' >/tmp/no-weir
chmod +x /tmp/no-weir
weir=/tmp/no-weir
rig burst --case cake --repeats 1 >"/tmp/log-$stage" 2>&1 && status=0 || status=$?
after $status
weir=/usr/bin/weir

# Not INT: a shell has its background jobs ignore it.
for signal in TERM KILL; do
    stage=$signal
    echo "stage $stage"
    : >"/tmp/log-$stage"
    hwtests --rigs . run burst --rig pci.toml --port "$PORT" --peer "$PEER" --case cake --seconds 60 \
        --out "/tmp/out-$stage" --weir "$weir" >"/tmp/log-$stage" 2>&1 &
    run=$!
    while [ -e /proc/$run ] && ! has_line "frames at once" "/tmp/log-$stage"; do sleep 0.5; done
    kill -$signal $run || true
    wait $run && status=0 || status=$?
    after $status
done

stage=probe
echo "stage $stage"
rig probe >"/tmp/log-$stage" 2>&1 && status=0 || status=$?
after $status
