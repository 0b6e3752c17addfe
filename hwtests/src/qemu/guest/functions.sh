set -eu

# Gives cards to vfio-pci, which hands them to DPDK behind the IOMMU.
to_vfio() {
    for card; do
        echo vfio-pci >"/sys/bus/pci/devices/$card/driver_override"
        [ ! -e "/sys/bus/pci/devices/$card/driver" ] || echo "$card" >"/sys/bus/pci/devices/$card/driver/unbind"
        echo "$card" >/sys/bus/pci/drivers_probe
        [ -e "/sys/bus/pci/drivers/vfio-pci/$card" ] || { echo "vfio-pci does not take $card"; exit 1; }
    done
}

