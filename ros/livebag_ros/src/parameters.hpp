// Parameters of the nodes.

#pragma once

#include <rcl_interfaces/msg/parameter_descriptor.hpp>
#include <rclcpp/rclcpp.hpp>

#include <string>

namespace livebag_ros {

/// Declares a parameter that is given at the start and stays.
template <class Value>
Value fixed_parameter(rclcpp::Node& node, const std::string& name, const Value& fallback,
                      const std::string& description) {
    rcl_interfaces::msg::ParameterDescriptor descriptor;
    descriptor.description = description;
    descriptor.read_only = true;
    return node.declare_parameter<Value>(name, fallback, descriptor);
}

}  // namespace livebag_ros
