// Names of streams, checked before there is anything to open.

#pragma once

#include <livebag/stream.hpp>

#include <string>

namespace livebag_ros {

/// Throws livebag::Error with the rule that a name breaks: no stream can ever be called so.
inline void require_stream_name(const std::string& name) {
    try {
        livebag::Reader::open(name);
    } catch (const livebag::Error& error) {
        // Everything else may be right later.
        if (error.code() == livebag::Errc::bad_name) throw;
    }
}

}  // namespace livebag_ros
