"""package.xml, CMakeLists.txt and the launch file agree with each other. Needs no ROS.

With LIVEBAG_PROGRAM=/path/to/livebag the commands of the launch file are shown to the real command line.
"""

import ast
import importlib.util
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
LAUNCH_FILE = PACKAGE / 'launch' / 'camera_detector.launch.py'
CMAKE = (PACKAGE / 'CMakeLists.txt').read_text()


def load_launch_file():
    spec = importlib.util.spec_from_file_location('camera_detector', LAUNCH_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared_parameters(source):
    """What a node's source declares, with the types that the settings' defaults have."""
    return set(re.findall(r'fixed_parameter(?:<[^>]+>)?\(\s*\*this, "(\w+)"', (PACKAGE / 'src' / source).read_text()))


class PackageXml(unittest.TestCase):
    def setUp(self):
        self.root = xml.parse(PACKAGE / 'package.xml').getroot()

    def texts(self, *tags):
        return [element.text for tag in tags for element in self.root.findall(tag)]

    def test_what_every_package_says(self):
        self.assertEqual((self.root.tag, self.root.get('format')), ('package', '3'))
        for tag in ('name', 'version', 'description', 'maintainer', 'license'):
            self.assertTrue(self.root.findtext(tag).strip(), tag)
        self.assertEqual(self.texts('license'), ['Apache-2.0'])
        self.assertEqual(self.root.findtext('export/build_type'), 'ament_cmake')

    def test_it_is_the_package_that_cmake_builds(self):
        name, version = re.search(r'project\((\w+) VERSION ([\d.]+)', CMAKE).groups()
        self.assertEqual((self.root.findtext('name'), self.root.findtext('version')), (name, version))
        workspace = PACKAGE.parent.parent / 'Cargo.toml'
        if workspace.exists():
            self.assertIn(f'version = "{version}"', workspace.read_text())

    def test_what_cmake_requires_is_depended_on(self):
        nodes = CMAKE.split('if(LIVEBAG_ROS_NODES)')[1].split('endif()')[0]
        required = set(re.findall(r'^ *find_package\((\w+) REQUIRED\)', CMAKE, re.M)) - {'Threads'}
        self.assertTrue(required <= set(self.texts('depend')), required - set(self.texts('depend')))
        self.assertIn('rclcpp REQUIRED', nodes)
        self.assertIn('libopencv-dev', self.texts('depend'))
        self.assertIn('ament_cmake', self.texts('buildtool_depend'))

    def test_what_the_launch_file_imports_is_depended_on(self):
        imported = {node.module.split('.')[0] for node in ast.walk(ast.parse(LAUNCH_FILE.read_text()))
                    if isinstance(node, ast.ImportFrom)}
        self.assertEqual(imported, {'launch', 'launch_ros'})
        self.assertTrue(imported <= set(self.texts('exec_depend')))


class LaunchFile(unittest.TestCase):
    def setUp(self):
        self.launch = load_launch_file()
        self.values = {name: default for name, default, _ in self.launch.ARGUMENTS}

    def with_values(self, **values):
        self.assertTrue(set(values) <= set(self.values))
        return {**self.values, **values}

    def test_nodes_get_what_they_declare(self):
        driver = self.launch.driver_parameters(self.values)
        self.assertTrue(set(driver) <= declared_parameters('camera_driver_node.cpp'), driver)
        detector = self.launch.detector_parameters(self.values)
        self.assertEqual(set(detector), declared_parameters('detector_node.cpp'))
        # rclcpp refuses an integer for a parameter that was declared as a double.
        self.assertIs(type(self.launch.driver_parameters(self.with_values(rate='30'))['rate']), float)
        self.assertIs(type(self.launch.detector_parameters(self.with_values(deadline='1'))['deadline']), float)
        self.assertIs(type(driver['width']), int)

    def test_nodes_are_registered(self):
        for executable in re.findall(r"node\('(\w+)'", LAUNCH_FILE.read_text()):
            self.assertIn(f'EXECUTABLE {executable})', CMAKE)

    def test_recording(self):
        self.assertEqual(self.launch.record_command(self.values),
                         ['livebag', 'record', 'camera_front', '--disable-keyboard-controls'])
        self.assertEqual(self.launch.record_command(self.with_values(record='/data/run1'))[-2:], ['-o', '/data/run1'])
        self.assertIsNone(self.launch.record_command(self.with_values(record='False')))

    def test_bridging(self):
        self.assertIsNone(self.launch.bridge_command(self.values))
        self.assertEqual(self.launch.bridge_command(self.with_values(bridge='dds')),
                         ['livebag', 'bridge', '--ros2', 'dds', '--to-ros2', 'camera_front'])
        with self.assertRaisesRegex(RuntimeError, 'none of dds, zenoh'):
            self.launch.bridge_command(self.with_values(bridge='ros1'))

    def test_a_missing_program_is_named(self):
        values = self.with_values(livebag='/nonexistent/livebag')
        with self.assertRaisesRegex(RuntimeError, '/nonexistent/livebag is not in PATH'):
            self.launch.required_program(values, [['record']])
        self.launch.required_program(values, [])

    @unittest.skipUnless(os.environ.get('LIVEBAG_PROGRAM'), 'LIVEBAG_PROGRAM names no livebag')
    def test_the_command_line_takes_the_commands(self):
        values = self.with_values(livebag=os.environ['LIVEBAG_PROGRAM'], record='/nonexistent/run', bridge='dds')
        command = self.launch.record_command(values)
        profile = subprocess.run([*command, '--print-profile'], capture_output=True, text=True)
        self.assertEqual(profile.returncode, 0, profile.stderr)
        self.assertIn('/nonexistent/run', profile.stdout)
        # The help knows the options; running it would join a network.
        usage = subprocess.run([values['livebag'], 'bridge', '--help'], capture_output=True, text=True).stdout
        for option in self.launch.bridge_command(values):
            if option.startswith('--'):
                self.assertIn(option, usage)


if __name__ == '__main__':
    unittest.main()
