"""Camera driver and detector over one livebag stream, the recorder of the stream, and a bridge if asked for.

    ros2 launch livebag_ros camera_detector.launch.py record:=/data/run1 bridge:=dds
"""

import shutil

# Name, default, description.
ARGUMENTS = [
    ('stream', 'camera_front', 'name of the livebag stream'),
    ('image_topic', '', 'sensor_msgs/msg/Image to publish into the stream; empty: test pictures'),
    ('frame_id', 'camera_front_optical', 'frame of pictures that name none'),
    ('width', '1280', 'pixels, of test pictures'),
    ('height', '720', 'pixels, of test pictures'),
    ('rate', '30.0', 'hertz, of test pictures'),
    ('deadline', '0.5', 'seconds without a sign of life after which the driver counts as stalled'),
    ('threshold', '200', 'pixels from here on belong to the spot'),
    ('record', 'true', 'true: record into a folder named after the time; a folder: record there; false: do not'),
    ('bridge', '', 'dds or zenoh: publish the stream on that network of ROS 2, too; empty: do not'),
    ('livebag', 'livebag', 'the program livebag'),
]


def record_command(values):
    """What records the stream, or None."""
    if values['record'].lower() in ('false', '0', 'no', ''):
        return None
    command = [values['livebag'], 'record', values['stream'], '--disable-keyboard-controls']
    if values['record'].lower() not in ('true', '1', 'yes'):
        command += ['-o', values['record']]
    return command


def bridge_command(values):
    """What publishes the stream as a topic of ROS 2, or None."""
    if not values['bridge']:
        return None
    if values['bridge'] not in ('dds', 'zenoh'):
        raise RuntimeError(f"bridge:={values['bridge']} is none of dds, zenoh")
    return [values['livebag'], 'bridge', '--ros2', values['bridge'], '--to-ros2', values['stream']]


def driver_parameters(values):
    """The parameters of the driver, each of the type that the node declares."""
    return {
        'stream': values['stream'], 'image_topic': values['image_topic'], 'frame_id': values['frame_id'],
        'width': int(values['width']), 'height': int(values['height']), 'rate': float(values['rate']),
    }


def detector_parameters(values):
    """The parameters of the detector."""
    return {
        'stream': values['stream'], 'deadline': float(values['deadline']), 'threshold': int(values['threshold']),
    }


def required_program(values, commands):
    """Fail with a sentence, where launch would only say that a file is missing."""
    if any(commands) and shutil.which(values['livebag']) is None:
        raise RuntimeError(
            f"the program {values['livebag']} is not in PATH; install livebag, name it with livebag:=/path/to/livebag, "
            'or launch with record:=false and without bridge')


def actions(context):
    """Everything that is started, now that the arguments have values."""
    from launch.actions import ExecuteProcess
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    values = {name: context.launch_configurations[name].strip() for name, _, _ in ARGUMENTS}
    commands = [command for command in (record_command(values), bridge_command(values)) if command]
    required_program(values, commands)

    def node(executable, parameters):
        # Without the type, launch takes a stream called 7 for an integer.
        typed = {name: ParameterValue(value, value_type=type(value)) if isinstance(value, str) else value
                 for name, value in parameters.items()}
        return Node(package='livebag_ros', executable=executable, parameters=[typed], output='screen')

    # A recorder that is asked to stop still writes waiting messages; launch would end it after 5 s.
    processes = [ExecuteProcess(cmd=command, output='screen', sigterm_timeout='60') for command in commands]
    return [
        node('camera_driver', driver_parameters(values)),
        node('detector', detector_parameters(values)),
        *processes,
    ]


def generate_launch_description():
    # launch is imported here and above, so that the commands can be tested where there is no ROS.
    from launch import LaunchDescription
    from launch.actions import DeclareLaunchArgument, OpaqueFunction

    declared = [DeclareLaunchArgument(name, default_value=default, description=description)
                for name, default, description in ARGUMENTS]
    return LaunchDescription([*declared, OpaqueFunction(function=actions)])
