// The conformance tool of docs/stream-layout.md, section 7, and of docs/cycle-layout.md, section 5, and
// two verbs more for the headers:
//
//     stream_tool write    NAME --slots N --payload B --frames K [--hz R] [--checksum] [--way copy|loan]
//     stream_tool read     NAME --frames K [--slow-us U] [--way next|copy|receive] [--timeout-s S]
//     stream_tool readers  NAME
//     stream_tool cycle    NAME --board B --cycles K --weight W
//     stream_tool sample   NAME --kind bytes|image|points    publishes one frame with known values
//     stream_tool describe NAME                              prints the newest frame's header
//
// One line of JSON each; exit code 0, 1 (torn, out of time, failed) or 2 (usage).

#include <livebag/cycle.hpp>
#include <livebag/stream.hpp>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

struct Usage {
    std::string text;
};

class Arguments {
   public:
    Arguments(int count, char** values) {
        if (count < 3) throw Usage{"expected a verb (write, read, sample, describe) and a stream name"};
        verb = values[1];
        name = values[2];
        for (int i = 3; i < count; ++i) {
            const std::string option = values[i];
            if (option == "--checksum")
                given_[option] = "";
            else if (i + 1 < count)
                given_[option] = values[++i];
            else
                throw Usage{"the option " + option + " has no value"};
        }
    }

    std::string verb;
    std::string name;

    bool has(const std::string& option) {
        known_.insert(option);
        return given_.count(option) != 0;
    }
    std::string text(const std::string& option, const std::string& otherwise) {
        return has(option) ? given_[option] : otherwise;
    }
    double number(const std::string& option, double otherwise) {
        if (!has(option)) return otherwise;
        char* end = nullptr;
        const double value = std::strtod(given_[option].c_str(), &end);
        if (*end != '\0' || given_[option].empty() || value < 0)
            throw Usage{option + " is \"" + given_[option] + "\", expected a number"};
        return value;
    }
    uint64_t required(const std::string& option) {
        if (!has(option)) throw Usage{"the option " + option + " is missing"};
        return static_cast<uint64_t>(number(option, 0));
    }
    void finish() const {
        for (const auto& entry : given_)
            if (known_.count(entry.first) == 0) throw Usage{"the option " + entry.first + " does not exist here"};
    }

   private:
    std::map<std::string, std::string> given_;
    std::set<std::string> known_;
};

void fill_pattern(uint8_t* to, size_t bytes, uint64_t k) {
    const uint64_t base = k * 0x9E37'79B9'7F4A'7C15u;
    for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = base + at / 8;
        std::memcpy(to + at, &word, std::min<size_t>(8, bytes - at));
    }
}

bool has_pattern(const std::vector<uint8_t>& data, uint64_t k) {
    const uint64_t base = k * 0x9E37'79B9'7F4A'7C15u;
    for (size_t at = 0; at < data.size(); at += 8) {
        const uint64_t word = base + at / 8;
        if (std::memcmp(data.data() + at, &word, std::min<size_t>(8, data.size() - at)) != 0) return false;
    }
    return true;
}

int write_frames(Arguments& arguments) {
    const auto payload = arguments.required("--payload");
    const auto frames = arguments.required("--frames");
    const double hz = arguments.number("--hz", 0);
    const bool by_loan = arguments.text("--way", "copy") == "loan";
    auto options = livebag::StreamOptions::bytes(payload)
                       .with_slots(static_cast<uint32_t>(arguments.required("--slots")))
                       .with_type("livebag/Pattern", "")
                       .with_checksum(arguments.has("--checksum"));
    arguments.finish();
    auto writer = livebag::Writer::create(arguments.name, options);
    const uint64_t first = writer.latest_sequence() + 1;
    std::vector<uint8_t> frame(by_loan ? 0 : payload);
    const uint64_t start = livebag::detail::monotonic_nanos();
    for (uint64_t i = 0; i < frames; ++i) {
        const uint64_t due = start + static_cast<uint64_t>(hz > 0 ? 1e9 / hz * static_cast<double>(i) : 0);
        if (const uint64_t now = livebag::detail::monotonic_nanos(); due > now) livebag::detail::nap(due - now);
        if (by_loan) {
            auto loan = writer.loan();
            fill_pattern(loan.data(), payload, first + i);
            loan.publish({}, payload);
        } else {
            fill_pattern(frame.data(), payload, first + i);
            writer.publish({}, frame.data(), payload);
        }
    }
    std::printf("{\"tool\":\"write\",\"name\":\"%s\",\"published\":%llu,\"first_sequence\":%llu,\"last_sequence\":%llu}\n",
                arguments.name.c_str(), static_cast<unsigned long long>(frames),
                static_cast<unsigned long long>(first), static_cast<unsigned long long>(writer.latest_sequence()));
    return 0;
}

int read_frames(Arguments& arguments) {
    const auto frames = arguments.required("--frames");
    const auto slow_nanos = static_cast<uint64_t>(arguments.number("--slow-us", 0) * 1e3);
    const std::string way = arguments.text("--way", "next");
    const std::string label = arguments.text("--label", "");
    const auto timeout = std::chrono::nanoseconds(static_cast<int64_t>(arguments.number("--timeout-s", 30) * 1e9));
    arguments.finish();
    if (way != "next" && way != "copy" && way != "receive") throw Usage{"--way is \"" + way + "\""};
    const auto between = [slow_nanos] {
        if (slow_nanos > 0) livebag::detail::nap(slow_nanos);
    };
    const uint64_t deadline = livebag::detail::deadline_after(timeout);
    const auto left = [deadline] {
        const uint64_t now = livebag::detail::monotonic_nanos();
        return std::chrono::nanoseconds(now < deadline ? deadline - now : 0);
    };
    auto reader = livebag::Reader::open(arguments.name, timeout);
    reader.seek(1);
    if (!label.empty()) reader.labelled(label);
    std::vector<uint8_t> data;
    unsigned long long delivered = 0, torn = 0, lapped = 0, last = 0;
    const auto deliver = [&](const livebag::FrameHeader& frame) {
        ++delivered;
        if (way != "next") lapped += frame.sequence - last - 1;
        last = frame.sequence;
        if (!has_pattern(data, frame.sequence)) ++torn;
    };
    while (last < frames && left().count() > 0) {
        if (way == "receive") {
            if (const auto frame = reader.receive(data, left(), livebag::Wait::futex, between)) deliver(*frame);
            continue;
        }
        if (!reader.wait(left())) break;
        try {
            if (way == "next") {
                const livebag::NextCopy next = reader.copy_next(data, between);
                lapped += next.lapped;
                last += next.lapped;
                if (next.frame) deliver(*next.frame);
            } else if (const auto frame = reader.copy_latest(data, between)) {
                deliver(*frame);
            }
        } catch (const livebag::Error& error) {
            if (error.code() != livebag::Errc::overtaken) throw;
        }
    }
    std::printf("{\"tool\":\"read\",\"name\":\"%s\",\"delivered\":%llu,\"torn\":%llu,\"lapped\":%llu,\"last_sequence\":%llu}\n",
                arguments.name.c_str(), delivered, torn, lapped, last);
    return torn == 0 && last >= frames ? 0 : 1;
}

livebag::FrameMeta sample_meta(const std::string& kind) {
    livebag::FrameMeta meta;
    meta.frame_id = "sénsor/" + std::string(200, 'f');
    meta.publish_time_nanos = 1'234'567'890'123'456'789;
    if (kind == "image") meta.layout = livebag::ImageLayout{7, 5, 23, "16UC1_and_up_to_thirty_two_bytes", true};
    if (kind == "points") {
        livebag::PointsLayout points{3, 2, 26, 79, {}, true, false};
        for (uint8_t i = 0; i < 32; ++i)
            points.fields.push_back({"field_" + std::to_string(i), 3u * i, static_cast<uint8_t>(1 + i % 8), i + 1u});
        points.fields[31].name = std::string(32, 'n');
        meta.layout = points;
    }
    return meta;
}

int publish_sample(Arguments& arguments) {
    const std::string kind = arguments.text("--kind", "bytes");
    arguments.finish();
    auto options = livebag::StreamOptions::bytes(1000)
                       .with_slots(3)
                       .with_topic("/topic/of/" + kind)
                       .with_type("livebag/Sample", "cdr")
                       .with_schema("ros2msg", "uint8[] data\n# schéma\n")
                       .with_checksum();
    options.kind = kind == "image" ? livebag::Kind::image
                                   : kind == "points" ? livebag::Kind::points : livebag::Kind::bytes;
    auto writer = livebag::Writer::create(arguments.name, options);
    std::vector<uint8_t> data(777);
    fill_pattern(data.data(), data.size(), writer.latest_sequence() + 1);
    const auto sequence = writer.publish(sample_meta(kind), data.data(), data.size());
    std::printf("{\"tool\":\"sample\",\"name\":\"%s\",\"sequence\":%llu}\n", arguments.name.c_str(),
                static_cast<unsigned long long>(sequence));
    return 0;
}

/// JSON of texts that hold no control characters.
std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        if (c == '\n')
            made += "\\n";
        else
            made += c;
    }
    return made + "\"";
}

template <class Number>
std::string item(const char* name, Number value) {
    return std::string(",\"") + name + "\":" + std::to_string(value);
}
std::string item(const char* name, const std::string& value) {
    return std::string(",\"") + name + "\":" + quoted(value);
}

std::string json_of(const livebag::FrameLayout& layout) {
    if (const auto* image = std::get_if<livebag::ImageLayout>(&layout))
        return item("width", image->width) + item("height", image->height) + item("step", image->step) +
               item("encoding", image->encoding) + item("is_bigendian", int{image->is_bigendian});
    const auto* points = std::get_if<livebag::PointsLayout>(&layout);
    if (points == nullptr) return "";
    std::string fields;
    for (const auto& field : points->fields)
        fields += (fields.empty() ? "" : " ") + field.name + ":" + std::to_string(field.offset) + ":" +
                  std::to_string(field.datatype) + ":" + std::to_string(field.count);
    return item("width", points->width) + item("height", points->height) + item("point_step", points->point_step) +
           item("row_step", points->row_step) + item("is_bigendian", int{points->is_bigendian}) +
           item("is_dense", int{points->is_dense}) + item("fields", fields);
}

int describe(Arguments& arguments) {
    arguments.finish();
    auto reader = livebag::Reader::open(arguments.name);
    const livebag::StreamInfo& info = reader.info();
    std::vector<uint8_t> data;
    const auto frame = reader.copy_latest(data);
    if (!frame) throw livebag::Error(livebag::Errc::misuse, "no frame yet");
    std::string line = "{\"tool\":\"describe\"";
    line += item("name", info.name) + item("kind", std::string(livebag::to_string(info.kind))) +
            item("slots", info.slots) + item("payload_bytes_max", info.payload_bytes_max) +
            item("checksum", int{info.checksum}) + item("topic", info.topic) + item("type_name", info.type_name) +
            item("message_encoding", info.message_encoding) + item("schema_encoding", info.schema_encoding) +
            item("schema", info.schema) + item("epoch", reader.counters().epoch) +
            item("published", reader.counters().published) + item("sequence", frame->sequence) +
            item("publish_time_nanos", frame->publish_time_nanos) + item("payload_bytes", frame->payload_bytes) +
            item("frame_id", frame->frame_id) + item("crc32c", frame->crc32c ? int64_t{*frame->crc32c} : int64_t{-1}) +
            item("pattern", int{has_pattern(data, frame->sequence)}) + json_of(frame->layout) + "}";
    std::puts(line.c_str());
    return 0;
}

/// Who reads the stream.
int tell_readers(Arguments& arguments) {
    arguments.finish();
    const auto readers = livebag::Reader::open(arguments.name).readers();
    std::string list;
    for (const livebag::ReaderInfo& one : readers.value_or(std::vector<livebag::ReaderInfo>())) {
        if (!list.empty()) list += ",";
        list += "{\"pid\":" + std::to_string(one.pid) + item("label", one.label) + item("taken", one.taken) +
                item("lapped", one.lapped) + item("last_sequence", one.last_sequence) + item("behind", one.behind) + "}";
    }
    std::printf("{\"tool\":\"readers\",\"name\":\"%s\",\"shown\":%s,\"readers\":[%s]}\n", arguments.name.c_str(),
                readers ? "true" : "false", list.c_str());
    return 0;
}

/// K cycles, then one that lasts until standard input is closed.
int compute(Arguments& arguments) {
    const auto cycles = arguments.required("--cycles");
    const auto weight = static_cast<uint32_t>(arguments.required("--weight"));
    const std::string board = arguments.text("--board", "");
    arguments.finish();
    auto cycle = livebag::Cycle::join(arguments.name, board);
    for (uint64_t i = 0; i < cycles; ++i) {
        cycle.begin(1);
        cycle.end();
    }
    cycle.begin(weight);
    std::getchar();
    cycle.end();
    std::printf("{\"tool\":\"cycle\",\"name\":\"%s\",\"cycles\":%llu}\n", arguments.name.c_str(),
                static_cast<unsigned long long>(cycles + 1));
    std::fflush(stdout);
    std::getchar();
    return 0;
}

int run(Arguments arguments) {
    if (arguments.verb == "write") return write_frames(arguments);
    if (arguments.verb == "read") return read_frames(arguments);
    if (arguments.verb == "readers") return tell_readers(arguments);
    if (arguments.verb == "cycle") return compute(arguments);
    if (arguments.verb == "sample") return publish_sample(arguments);
    if (arguments.verb == "describe") return describe(arguments);
    throw Usage{"there is no verb \"" + arguments.verb + "\""};
}

}  // namespace

int main(int count, char** values) {
    try {
        return run(Arguments(count, values));
    } catch (const Usage& usage) {
        std::fprintf(stderr, "stream_tool: %s; see the top of cpp/tests/stream_tool.cpp\n", usage.text.c_str());
        return 2;
    } catch (const livebag::Error& error) {
        std::fprintf(stderr, "stream_tool: %s\n", error.what());
        return 1;
    }
}
