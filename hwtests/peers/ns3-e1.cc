// The shape of experiment E1 in ns-3: two TCP streams over a wire of 100 Mbit/s, FqCoDel above a device's ring, with or
// without dynamic queue limits (DQL) between the two.
//
// After RFC 8290 and ns-3's models FqCoDelQueueDisc, DynamicQueueLimits, TcpCubic: an independent implementation of all
// that the rig has, in simulated time. ns-3 has no super-packets: its sender hands over single segments.
//
// Prints one JSON object. Build: g++ ns3-e1.cc $(pkg-config --cflags --libs ns3-point-to-point ns3-applications
// ns3-internet-apps); Debian's libns3-dev.

#include <cstdio>
#include <vector>

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-apps-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

using namespace ns3;

namespace {

struct Wish {
    bool dql = true;
    uint32_t seconds = 10;
    uint32_t rateMbit = 100;
    uint32_t ring = 512;
    // Bytes that the first stream may have in flight, the second half as many; 0: as many as it likes.
    uint32_t window = 0;
};

// What the measured seconds brought.
struct Seen {
    std::vector<std::vector<double>> seconds{2};  // Mbit/s of payload of each stream
    std::vector<double> pings;                    // ms
    std::vector<double> idlePings;                // ms, before the load
    uint32_t limit = 0;
    uint32_t limitMax = 0;
};

// Slow start and the fight over the first queue are not measured, as on the rig.
const double LOAD_FROM = 2.0;
const double MEASURED_FROM = LOAD_FROM + 2.0;
const uint16_t FIRST_PORT = 5201;

Seen seen;

void limitChanged(uint32_t, uint32_t now) {
    seen.limit = now;
    if (Simulator::Now().GetSeconds() >= MEASURED_FROM && now > seen.limitMax) {
        seen.limitMax = now;
    }
}

void answered(Time rtt) {
    double at = Simulator::Now().GetSeconds();
    if (at >= MEASURED_FROM) {
        seen.pings.push_back(rtt.GetSeconds() * 1e3);
    } else if (at < LOAD_FROM) {
        seen.idlePings.push_back(rtt.GetSeconds() * 1e3);
    }
}

void everySecond(std::vector<Ptr<PacketSink>> sinks, std::vector<uint64_t> before) {
    for (size_t at = 0; at < sinks.size(); at++) {
        uint64_t total = sinks[at]->GetTotalRx();
        seen.seconds[at].push_back((total - before[at]) * 8e-6);
        before[at] = total;
    }
    Simulator::Schedule(Seconds(1), &everySecond, sinks, before);
}

void startMeasuring(std::vector<Ptr<PacketSink>> sinks) {
    std::vector<uint64_t> before;
    for (auto sink : sinks) {
        before.push_back(sink->GetTotalRx());
    }
    seen.limitMax = seen.limit;
    Simulator::Schedule(Seconds(1), &everySecond, sinks, before);
}

void setWindow(uint32_t bytes) {
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(bytes));
}

// a - wire - b, FqCoDel at a's end; returns b's address.
Ipv4Address connect(const Wish &wish, NodeContainer hosts) {
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(wish.rateMbit * 1000000ull)));
    wire.SetChannelAttribute("Delay", StringValue("10us"));
    wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, wish.ring)));
    NetDeviceContainer devices = wire.Install(hosts);
    InternetStackHelper().Install(hosts);
    TrafficControlHelper above;
    above.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
    if (wish.dql) {
        above.SetQueueLimits("ns3::DynamicQueueLimits");
    }
    above.Install(devices.Get(0));
    if (wish.dql) {
        auto queue = devices.Get(0)->GetObject<NetDeviceQueueInterface>()->GetTxQueue(0);
        queue->GetQueueLimits()->TraceConnectWithoutContext("Limit", MakeCallback(&limitChanged));
    }
    Ipv4AddressHelper addresses("192.0.2.0", "255.255.255.0");
    return addresses.Assign(devices).GetAddress(1);
}

std::vector<Ptr<PacketSink>> load(const Wish &wish, NodeContainer hosts, Ipv4Address peer) {
    std::vector<Ptr<PacketSink>> sinks;
    for (uint16_t at = 0; at < 2; at++) {
        uint16_t port = FIRST_PORT + at;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(hosts.Get(1)).Get(0)));
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(peer, port));
        Time start = Seconds(LOAD_FROM + 0.1 * at);
        sender.Install(hosts.Get(0)).Start(start);
        // A sender's socket takes the default of the moment at which it starts.
        uint32_t window = wish.window == 0 ? 4 << 20 : wish.window >> at;
        Simulator::Schedule(start - MilliSeconds(10), &setWindow, window);
    }
    V4PingHelper ping(peer);
    ping.SetAttribute("Interval", TimeValue(MilliSeconds(20)));
    ApplicationContainer pings = ping.Install(hosts.Get(0));
    pings.Start(Seconds(1));
    pings.Get(0)->TraceConnectWithoutContext("Rtt", MakeCallback(&answered));
    return sinks;
}

void printList(const char *name, const std::vector<double> &values) {
    std::printf("\"%s\": [", name);
    for (size_t at = 0; at < values.size(); at++) {
        std::printf("%s%.4f", at == 0 ? "" : ", ", values[at]);
    }
    std::printf("], ");
}

}  // namespace

int main(int argc, char **argv) {
    Wish wish;
    CommandLine line(__FILE__);
    line.AddValue("dql", "dynamic queue limits below FqCoDel", wish.dql);
    line.AddValue("seconds", "measured time", wish.seconds);
    line.AddValue("rate", "of the wire, Mbit/s", wish.rateMbit);
    line.AddValue("ring", "packets that the device holds", wish.ring);
    line.AddValue("window", "bytes in flight of the first stream, the second has half; 0: no limit", wish.window);
    line.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    NodeContainer hosts;
    hosts.Create(2);
    Ipv4Address peer = connect(wish, hosts);
    auto sinks = load(wish, hosts, peer);
    Simulator::Schedule(Seconds(MEASURED_FROM), &startMeasuring, sinks);
    Simulator::Stop(Seconds(MEASURED_FROM + wish.seconds) + MilliSeconds(1));
    Simulator::Run();
    Simulator::Destroy();

    std::printf("{");
    printList("stream1_mbit", seen.seconds[0]);
    printList("stream2_mbit", seen.seconds[1]);
    printList("ping_idle_ms", seen.idlePings);
    printList("ping_ms", seen.pings);
    std::printf("\"limit_max\": %u}\n", seen.limitMax);
}
