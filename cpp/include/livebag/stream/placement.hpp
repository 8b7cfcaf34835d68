// Placement of memory and thread. Each wish that the machine refuses becomes a warning with its cure.

#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "options.hpp"
#include "system.hpp"

namespace livebag::detail {

class Placer {
   public:
    explicit Placer(std::vector<std::string>& warnings) : warnings_(warnings) {}

    void place(const Placement& wish, const Mapping& memory, const Geometry& geometry) {
        if (wish.numa_node) bind(*wish.numa_node, memory);
        if (wish.huge_pages) make_huge(memory, geometry);
        if (wish.lock_memory) lock(memory);
        if (wish.cpu) pin(*wish.cpu);
        if (wish.fifo_priority) prioritise(*wish.fifo_priority);
    }

   private:
    void warn(const std::string& wish, const std::string& cure) {
        warnings_.push_back(wish + " is not possible: " + std::strerror(errno) + "; " + cure);
    }

    // MPOL_BIND and MPOL_MF_MOVE of <numaif.h>, which belongs to libnuma. MOVE because fallocate
    // has already taken the pages.
    void bind(uint32_t node, const Mapping& memory) {
        constexpr int mpol_bind = 2;
        constexpr unsigned mpol_mf_move = 2;
        constexpr uint32_t nodes_max = 1024;
        unsigned long mask[nodes_max / 64] = {};
        errno = EINVAL;
        if (node < nodes_max) {
            mask[node / 64] = 1ul << (node % 64);
            if (::syscall(SYS_mbind, memory.start(), memory.bytes(), mpol_bind, mask, nodes_max + 1, mpol_mf_move) == 0)
                return;
        }
        warn("memory on NUMA node " + std::to_string(node), "see `numactl --hardware` for the nodes there are");
    }

    // MADV_COLLAPSE (kernel 6.1) because fallocate has already filled the area with small pages.
    void make_huge(const Mapping& memory, const Geometry& geometry) {
        constexpr int madv_collapse = 25;
        const uint64_t start = round_up(geometry.payloads_offset, huge_page_bytes);
        const uint64_t end = memory.bytes() / huge_page_bytes * huge_page_bytes;
        if (start >= end) {
            warnings_.push_back("huge pages are not used: all payloads together are smaller than 4 MiB");
            return;
        }
        uint8_t* const at = memory.start() + start;
        if (::madvise(at, end - start, MADV_HUGEPAGE) == 0 && ::madvise(at, end - start, madv_collapse) == 0) return;
        warn("memory in huge pages", "mount -o remount,huge=advise /dev/shm (kernel 6.1 or newer), as root");
    }

    void lock(const Mapping& memory) {
        if (::mlock(memory.start(), memory.bytes()) == 0) return;
        warn("locking " + std::to_string(memory.bytes()) + " bytes of memory",
             "raise the limit (ulimit -l, LimitMEMLOCK= of the service) or grant CAP_IPC_LOCK");
    }

    void pin(uint32_t cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        errno = EINVAL;
        if (cpu < CPU_SETSIZE) {
            CPU_SET(cpu, &set);
            if (::sched_setaffinity(0, sizeof set, &set) == 0) return;
        }
        warn("running on CPU " + std::to_string(cpu), "see `nproc` and the cpuset of the container or service");
    }

    void prioritise(int priority) {
        struct sched_param wish {};
        wish.sched_priority = priority;
        if (::sched_setscheduler(0, SCHED_FIFO, &wish) == 0) return;
        warn("running under SCHED_FIFO " + std::to_string(priority),
             "raise the limit (ulimit -r, LimitRTPRIO= of the service) or grant CAP_SYS_NICE");
    }

    std::vector<std::string>& warnings_;
};

}  // namespace livebag::detail
