# What DPDK's driver says and does: $PORT under test, $WITNESS on the same wire.
to_vfio "$PORT" "$WITNESS"
echo "weir probe"
weir probe "$PORT" >/tmp/report/weir.txt
for what in completions segments; do
    echo "checking $what"
    nic-check "$what" "$PORT" "$WITNESS" --eal=--in-memory >"/tmp/report/$what"
done
