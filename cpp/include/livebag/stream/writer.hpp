// Writer and Loan.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "claim.hpp"
#include "placement.hpp"
#include "slot.hpp"
#include "wake.hpp"

namespace livebag {

namespace detail {

/// The state of a writer; loans share it, so that a loan never outlives the memory it points to.
class WriterState {
   public:
    WriterState(Claim claim, const Placement& placement) : claim_(std::move(claim)) {
        Placer(warnings).place(placement, claim_.main, claim_.header.geometry);
    }
    WriterState(const WriterState&) = delete;
    WriterState& operator=(const WriterState&) = delete;
    ~WriterState() { close(); }

    std::vector<std::string> warnings;

    const Claim& claim() const { return claim_; }
    uint64_t latest() const { return load_relaxed(main(), live_at::latest); }
    uint8_t* payload() const { return main() + claim_.header.geometry.payload_offset(latest() + 1); }
    uint64_t payload_bytes_max() const { return claim_.header.info.payload_bytes_max; }

    void close() {
        if (closed_) return;
        closed_ = true;
        store_relaxed(main(), live_at::state, state_is::closed);
        if (!loaned_) release_lock(claim_.object);
    }

    void close_and_remove() {
        if (closed_) throw Error(Errc::misuse, "the writer is closed already; use livebag::remove");
        const struct stat status = status_of(claim_.object, claim_.name.main_path());
        if (still_named(claim_.name.main_path(), status)) {
            ::unlink(claim_.name.main_path().c_str());
            ::unlink(claim_.name.wake_path().c_str());
        }
        close();
    }

    void heartbeat() {
        store_relaxed(main(), live_at::heartbeat_monotonic_nanos, monotonic_nanos());
        add(live_at::heartbeat_count, 1);
    }

    void add(size_t counter, uint64_t more) {
        store_relaxed(main(), counter, load_relaxed(main(), counter) + more);
    }

    void begin_loan() {
        require_ready();
        begin_fill(slot(), latest() + 1);
        loaned_ = true;
    }

    /// Leaves `lock` odd: the next fill takes the same sequence.
    void abandon_loan() {
        loaned_ = false;
        if (!closed_) return add(live_at::abandoned, 1);
        // Kept until now, because the program could still write into the slot.
        release_lock(claim_.object);
    }

    uint64_t finish_loan(const FrameMeta& meta, uint64_t bytes) {
        if (closed_) throw Error(Errc::misuse, "the writer was closed while the loan was out; publish before closing");
        encode(meta, bytes);
        const uint64_t k = latest() + 1;
        if (claim_.header.info.checksum) header_.set_crc(crc32c(slot().payload, bytes));
        header_.store(slot());
        finish_fill(slot(), k);
        loaned_ = false;
        announce(main(), claim_.wake, live_at::begun, wake_at::wanted_begun, k);
        published(k, bytes);
        return k;
    }

    uint64_t publish_copy(const FrameMeta& meta, const uint8_t* data, uint64_t bytes) {
        require_ready();
        encode(meta, bytes);
        const uint64_t k = latest() + 1;
        const uint64_t attempt = begin_fill(slot(), k);
        header_.store(slot());
        announce(main(), claim_.wake, live_at::begun, wake_at::wanted_begun, k);
        const uint32_t crc = fill_by_copy(slot(), attempt, data, bytes, claim_.header.info.checksum);
        if (claim_.header.info.checksum) {
            header_.set_crc(crc);
            header_.store(slot());
        }
        finish_fill(slot(), k);
        published(k, bytes);
        return k;
    }

   private:
    uint8_t* main() const { return claim_.main.start(); }

    Slot slot() const {
        const Geometry& geometry = claim_.header.geometry;
        const uint64_t k = latest() + 1;
        return Slot{main() + geometry.slot_header_offset(k), main() + geometry.payload_offset(k)};
    }

    void require_ready() const {
        if (closed_) throw Error(Errc::misuse, "the writer is closed; create it again");
        if (loaned_)
            throw Error(Errc::misuse, "a loan of this stream is still out; publish it or let it go out of scope first");
    }

    /// Checks the frame before anything shared is touched. A frame that cannot be published counts as dropped.
    void encode(const FrameMeta& meta, uint64_t bytes) {
        try {
            if (bytes > payload_bytes_max())
                throw Error(Errc::too_large, "the frame has " + std::to_string(bytes) + " bytes, a slot holds " +
                                                 std::to_string(payload_bytes_max()) +
                                                 "; create the stream with a larger payload_bytes_max");
            header_.encode(meta, claim_.header.info.kind, bytes,
                           meta.publish_time_nanos ? *meta.publish_time_nanos : realtime_nanos());
        } catch (const Error&) {
            add(live_at::dropped, 1);
            throw;
        }
    }

    void published(uint64_t k, uint64_t bytes) {
        const uint64_t now = monotonic_nanos();
        if (published_at_ != 0 && now - published_at_ > load_relaxed(main(), live_at::publish_gap_max_nanos))
            store_relaxed(main(), live_at::publish_gap_max_nanos, now - published_at_);
        published_at_ = now;
        store_relaxed(main(), live_at::heartbeat_monotonic_nanos, now);
        add(live_at::heartbeat_count, 1);
        add(live_at::published, 1);
        add(live_at::payload_bytes_published, bytes);
        announce(main(), claim_.wake, live_at::latest, wake_at::wanted_latest, k);
    }

    Claim claim_;
    HeaderImage header_;
    uint64_t published_at_ = 0;  // monotonic; 0: nothing in this epoch yet
    bool loaned_ = false;
    bool closed_ = false;
};

}  // namespace detail

/// A slot lent to the program to be filled in place. Letting it go out of scope gives it back
/// unpublished; the frame before stays the latest.
class Loan {
   public:
    explicit Loan(std::shared_ptr<detail::WriterState> state) : state_(std::move(state)) { state_->begin_loan(); }
    Loan(Loan&&) noexcept = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
        if (state_) state_->abandon_loan();
    }

    /// The slot's payload, page-aligned. What an earlier frame left there is still in it.
    uint8_t* data() const { return open().payload(); }
    /// Its size, the stream's `payload_bytes_max`.
    uint64_t capacity() const { return open().payload_bytes_max(); }

    /// Publishes the first `bytes` bytes; returns the frame's sequence. When it throws, the loan is
    /// still there and may be published with a better description.
    uint64_t publish(const FrameMeta& meta, uint64_t bytes) {
        const uint64_t sequence = open().finish_loan(meta, bytes);
        state_.reset();
        return sequence;
    }

    /// Publishes as many bytes as the layout of an image or of points requires.
    uint64_t publish(const FrameMeta& meta) {
        if (const auto* image = std::get_if<ImageLayout>(&meta.layout)) return publish(meta, image->payload_bytes());
        if (const auto* points = std::get_if<PointsLayout>(&meta.layout)) return publish(meta, points->payload_bytes());
        throw Error(Errc::misuse, "how many bytes? Give a frame of kind bytes its length: publish(meta, bytes)");
    }

   private:
    detail::WriterState& open() const {
        if (!state_) throw Error(Errc::misuse, "the loan was published already; take the next one with Writer::loan");
        return *state_;
    }

    std::shared_ptr<detail::WriterState> state_;
};

/// The one writer of a stream. Never waits and never reads anything from readers. For one thread at a time.
class Writer {
   public:
    /// Creates the stream, or re-attaches to it after the end or the death of its last writer: the sequence continues.
    /// A stream of that name with other options is replaced. Throws if a live writer owns it, or the name belongs to
    /// another kind of file or another user.
    static Writer create(const std::string& name, const StreamOptions& options) {
        return Writer(std::make_shared<detail::WriterState>(detail::Claimer(detail::Name(name), options).claim(),
                                                            options.placement));
    }

    /// A slot to fill in place. One at a time.
    Loan loan() { return Loan(state_); }

    /// Copies a frame into the next slot; returns its sequence.
    uint64_t publish(const FrameMeta& meta, const void* data, uint64_t bytes) {
        return state_->publish_copy(meta, static_cast<const uint8_t*>(data), bytes);
    }

    /// Tells readers that the writer lives although it has nothing to publish.
    void heartbeat() { state_->heartbeat(); }
    /// Counts frames that the program could not publish.
    void count_dropped(uint64_t frames) { state_->add(detail::live_at::dropped, frames); }

    const StreamInfo& info() const { return state_->claim().header.info; }
    /// 1 at creation, one more at each re-attachment.
    uint64_t epoch() const { return detail::load_relaxed(state_->claim().main.start(), detail::live_at::epoch); }
    uint64_t latest_sequence() const { return state_->latest(); }
    /// Wishes of `Placement` that the machine refused, each with its cure.
    const std::vector<std::string>& warnings() const { return state_->warnings; }

    /// Ends normally; the last frames stay readable and the next writer continues. The destructor does so too.
    void close() { state_->close(); }
    /// Ends in order and removes the stream's name.
    void close_and_remove() { state_->close_and_remove(); }

   private:
    explicit Writer(std::shared_ptr<detail::WriterState> state) : state_(std::move(state)) {}

    std::shared_ptr<detail::WriterState> state_;
};

}  // namespace livebag
