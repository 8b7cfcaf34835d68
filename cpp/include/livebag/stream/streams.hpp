// The streams of this machine.

#pragma once

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "claim.hpp"
#include "system.hpp"

namespace livebag {

/// Names of all streams that are there, with or without a writer, in alphabetical order.
inline std::vector<std::string> list() {
    struct Closer {
        void operator()(DIR* folder) const { ::closedir(folder); }
    };
    const std::unique_ptr<DIR, Closer> folder(::opendir(detail::folder().c_str()));
    if (!folder) throw detail::system_error("list the streams in", detail::folder());
    const std::string prefix = detail::Name::prefix();
    std::vector<std::string> names;
    while (const struct dirent* entry = ::readdir(folder.get())) {
        const std::string file = entry->d_name;
        if (file.compare(0, prefix.size(), prefix) != 0) continue;
        const std::string name = file.substr(prefix.size());
        if (detail::Name::is_valid(name)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// Removes a stream that has no live writer. Its readers keep their mappings.
inline void remove(const std::string& name) {
    const detail::Name checked(name);
    const std::string path = checked.main_path();
    const detail::Descriptor object = detail::open_object(path, O_RDWR);
    if (!object && errno == ENOENT)
        throw Error(Errc::not_found, "there is no stream \"" + name + "\" on this machine");
    if (object && !detail::take_lock(object, path) &&
        detail::lock_holder(object, F_WRLCK) == detail::Holder::writer)
        throw Error(Errc::live_writer, "the stream \"" + name + "\" has a live writer; stop it first");
    if (object) {
        const struct stat status = detail::status_of(object, path);
        if (!detail::still_named(path, status)) return;
        detail::Claimer::tell_replaced(object, static_cast<uint64_t>(status.st_size));
    }
    if (::unlink(path.c_str()) != 0) throw detail::system_error("remove", path);
    ::unlink(checked.wake_path().c_str());
}

}  // namespace livebag
