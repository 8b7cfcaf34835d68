// A foreign participant with the system's Fast DDS, set up as rmw_fastrtps does it: fast_peer DOMAIN.
//
// It does what lines on standard input say, and answers each with one line (`take` and `seen`: with a
// count and as many items). Names are those of DDS; messages are CDR with their encapsulation.
//
//   publisher TOPIC TYPE USER_DATA RELIABLE LATCHED DEPTH   its number. USER_DATA `-`: none; DEPTH 0: keep all
//   subscriber TOPIC TYPE USER_DATA RELIABLE LATCHED DEPTH  its number
//   guid NUMBER                      16 bytes in hexadecimal digits; of the participant with number -1
//   write NUMBER LENGTH, then bytes  ok
//   matched NUMBER                   endpoints at the other side
//   incompatible NUMBER              endpoints that ask for more than is offered, or offer less
//   acked NUMBER SECONDS             1 if all readers have everything, else 0
//   take NUMBER                      messages that have come: each its length, a line end, its bytes
//   seen                             endpoints of others: `w` or `r`, topic, type, user data
//   close NUMBER                     ok
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/domain/DomainParticipantListener.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastrtps/utils/IPLocator.h>

namespace fast = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
using Bytes = std::vector<unsigned char>;

// Messages of any type, as bytes.
struct RawType : fast::TopicDataType {
    explicit RawType(const std::string& name) {
        setName(name.c_str());
        m_typeSize = 64;
        auto_fill_type_object(false);
        auto_fill_type_information(false);
    }
    bool serialize(void* data, rtps::SerializedPayload_t* payload) override {
        const Bytes& bytes = *static_cast<Bytes*>(data);
        if (bytes.size() > payload->max_size) return false;
        std::copy(bytes.begin(), bytes.end(), payload->data);
        payload->length = static_cast<uint32_t>(bytes.size());
        payload->encapsulation = bytes[1] & 1 ? CDR_LE : CDR_BE;
        return true;
    }
    bool deserialize(rtps::SerializedPayload_t* payload, void* data) override {
        static_cast<Bytes*>(data)->assign(payload->data, payload->data + payload->length);
        return true;
    }
    std::function<uint32_t()> getSerializedSizeProvider(void* data) override {
        return [data] { return static_cast<uint32_t>(static_cast<Bytes*>(data)->size()); };
    }
    void* createData() override { return new Bytes; }
    void deleteData(void* data) override { delete static_cast<Bytes*>(data); }
    bool getKey(void*, rtps::InstanceHandle_t*, bool) override { return false; }
};

// Which endpoints others have, by their identities.
struct Listener : fast::DomainParticipantListener {
    std::mutex mutex;
    std::map<rtps::GUID_t, std::string> seen;

    template <typename Data>
    void note(bool is_there, const char* side, const Data& data) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!is_there) { seen.erase(data.guid()); return; }
        const auto& text = data.m_qos.m_userData.getValue();
        seen[data.guid()] = std::string(side) + " " + data.topicName().to_string() + " " +
            data.typeName().to_string() + " " + (text.empty() ? "-" : std::string(text.begin(), text.end()));
    }
    void on_publisher_discovery(fast::DomainParticipant*, rtps::WriterDiscoveryInfo&& found) override {
        note(found.status != rtps::WriterDiscoveryInfo::REMOVED_WRITER, "w", found.info);
    }
    void on_subscriber_discovery(fast::DomainParticipant*, rtps::ReaderDiscoveryInfo&& found) override {
        note(found.status != rtps::ReaderDiscoveryInfo::REMOVED_READER, "r", found.info);
    }
};

struct Asked {
    std::string topic, type, user_data;
    bool is_reliable, is_latched;
    int depth;
};

template <typename Qos>
void apply(const Asked& asked, Qos& qos) {
    qos.reliability().kind = asked.is_reliable ? fast::RELIABLE_RELIABILITY_QOS : fast::BEST_EFFORT_RELIABILITY_QOS;
    qos.durability().kind = asked.is_latched ? fast::TRANSIENT_LOCAL_DURABILITY_QOS : fast::VOLATILE_DURABILITY_QOS;
    qos.history().kind = asked.depth == 0 ? fast::KEEP_ALL_HISTORY_QOS : fast::KEEP_LAST_HISTORY_QOS;
    qos.history().depth = asked.depth == 0 ? 1 : asked.depth;
    qos.resource_limits().max_samples = 0;
    qos.resource_limits().max_instances = 0;
    qos.resource_limits().max_samples_per_instance = 0;
    qos.endpoint().history_memory_policy = rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
    qos.data_sharing().off();
    if (asked.user_data != "-")
        qos.user_data().setValue({asked.user_data.begin(), asked.user_data.end()});
}

struct Peer {
    Listener listener;
    fast::DomainParticipant* participant;
    fast::Publisher* publisher;
    fast::Subscriber* subscriber;
    std::vector<fast::DataWriter*> writers;  // by number; null where it is a reader, or closed
    std::vector<fast::DataReader*> readers;

    explicit Peer(unsigned domain) {
        fast::DomainParticipantQos qos;
        // rmw_fastrtps with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.
        auto& builtin = qos.wire_protocol().builtin;
        builtin.metatrafficUnicastLocatorList.push_back(rtps::Locator_t());
        rtps::Locator_t localhost;
        rtps::IPLocator::setIPv4(localhost, "127.0.0.1");
        builtin.initialPeersList.push_back(localhost);
        builtin.readerHistoryMemoryPolicy = rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
        builtin.writerHistoryMemoryPolicy = rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
        const std::string enclave = "enclave=/;";
        qos.user_data().setValue({enclave.begin(), enclave.end()});
        qos.name("/");
        participant = fast::DomainParticipantFactory::get_instance()->create_participant(
            domain, qos, &listener, fast::StatusMask::none());
        if (!participant) exit(1);
        publisher = participant->create_publisher(fast::PUBLISHER_QOS_DEFAULT);
        subscriber = participant->create_subscriber(fast::SUBSCRIBER_QOS_DEFAULT);
    }
    ~Peer() {
        participant->delete_contained_entities();
        fast::DomainParticipantFactory::get_instance()->delete_participant(participant);
    }

    fast::Topic* topic(const Asked& asked) {
        fast::TypeSupport(new RawType(asked.type)).register_type(participant);
        if (auto* there = participant->lookup_topicdescription(asked.topic))
            return static_cast<fast::Topic*>(there);
        return participant->create_topic(asked.topic, asked.type, fast::TOPIC_QOS_DEFAULT);
    }
    size_t add(fast::DataWriter* writer, fast::DataReader* reader) {
        if (!writer && !reader) exit(1);
        writers.push_back(writer);
        readers.push_back(reader);
        return writers.size() - 1;
    }
    size_t publish(const Asked& asked) {
        fast::DataWriterQos qos;
        apply(asked, qos);
        qos.publish_mode().kind = fast::SYNCHRONOUS_PUBLISH_MODE;
        qos.reliability().max_blocking_time = {60, 0};
        return add(publisher->create_datawriter(topic(asked), qos), nullptr);
    }
    size_t subscribe(const Asked& asked) {
        fast::DataReaderQos qos;
        apply(asked, qos);
        return add(nullptr, subscriber->create_datareader(topic(asked), qos));
    }
    int matched(size_t number) {
        fast::PublicationMatchedStatus of_writer;
        fast::SubscriptionMatchedStatus of_reader;
        if (writers.at(number)) writers[number]->get_publication_matched_status(of_writer);
        else readers.at(number)->get_subscription_matched_status(of_reader);
        return of_writer.current_count + of_reader.current_count;
    }
    int incompatible(size_t number) {
        fast::OfferedIncompatibleQosStatus of_writer;
        fast::RequestedIncompatibleQosStatus of_reader;
        if (writers.at(number)) writers[number]->get_offered_incompatible_qos_status(of_writer);
        else readers.at(number)->get_requested_incompatible_qos_status(of_reader);
        return static_cast<int>(of_writer.total_count + of_reader.total_count);
    }
    void take(size_t number) {
        std::vector<Bytes> taken;
        Bytes bytes;
        fast::SampleInfo info;
        while (readers.at(number)->take_next_sample(&bytes, &info) == ReturnCode_t::RETCODE_OK)
            if (info.valid_data) taken.push_back(bytes);
        std::cout << taken.size() << '\n';
        for (const Bytes& one : taken) {
            std::cout << one.size() << '\n';
            std::cout.write(reinterpret_cast<const char*>(one.data()), static_cast<std::streamsize>(one.size()));
        }
    }
    void guid(int number) {
        rtps::GUID_t id = participant->guid();
        if (number >= 0) id = writers.at(number) ? writers[number]->guid() : readers.at(number)->guid();
        for (auto byte : id.guidPrefix.value) printf("%02x", byte);
        for (auto byte : id.entityId.value) printf("%02x", byte);
        printf("\n");
        fflush(stdout);
    }
    void close(size_t number) {
        if (writers.at(number)) publisher->delete_datawriter(writers[number]);
        else subscriber->delete_datareader(readers.at(number));
        writers[number] = nullptr;
        readers[number] = nullptr;
    }
};

static bool obey(Peer& peer, const std::string& command) {
    if (command == "publisher" || command == "subscriber") {
        Asked asked;
        std::cin >> asked.topic >> asked.type >> asked.user_data >> asked.is_reliable >> asked.is_latched >> asked.depth;
        std::cout << (command == "publisher" ? peer.publish(asked) : peer.subscribe(asked)) << std::endl;
        return true;
    }
    if (command == "seen") {
        std::lock_guard<std::mutex> lock(peer.listener.mutex);
        std::cout << peer.listener.seen.size() << '\n';
        for (const auto& one : peer.listener.seen) std::cout << one.second << '\n';
        std::cout.flush();
        return true;
    }
    int number = 0;
    std::cin >> number;
    if (command == "guid") {
        peer.guid(number);
    } else if (command == "write") {
        size_t length = 0;
        std::cin >> length;
        std::cin.get();
        Bytes bytes(length);
        std::cin.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
        std::cout << (peer.writers.at(number)->write(&bytes) ? "ok" : "failed") << std::endl;
    } else if (command == "matched") {
        std::cout << peer.matched(number) << std::endl;
    } else if (command == "incompatible") {
        std::cout << peer.incompatible(number) << std::endl;
    } else if (command == "acked") {
        int seconds = 0;
        std::cin >> seconds;
        std::cout << (peer.writers.at(number)->wait_for_acknowledgments({seconds, 0}) == ReturnCode_t::RETCODE_OK) << std::endl;
    } else if (command == "take") {
        peer.take(number);
        std::cout.flush();
    } else if (command == "close") {
        peer.close(number);
        std::cout << "ok" << std::endl;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Peer peer(static_cast<unsigned>(std::stoul(argv[1])));
    std::string command;
    while (std::cin >> command)
        if (!obey(peer, command)) return 2;
    return 0;
}
