//! Definitions of an installed ROS: `PREFIX/share/PACKAGE/{msg,srv,action}/NAME.{msg,srv,action}`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use livebag_format::definitions;

use super::assemble;

/// Longest definition file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where an installed ROS keeps its interfaces.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    prefixes: Vec<PathBuf>,
}

impl Installed {
    /// The folders of `AMENT_PREFIX_PATH`, which ROS 2's setup scripts set.
    pub fn from_environment() -> Self {
        let paths = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
        Self::in_folders(std::env::split_paths(&paths).filter(|path| path.is_absolute()))
    }

    /// These folders, the first that has a package wins.
    pub fn in_folders(prefixes: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { prefixes: prefixes.into_iter().collect() }
    }

    /// A type's definition as schema text of encoding `ros2msg`, with all types that it needs (common
    /// ones from the bundle where they are not installed). Types that ROS 2 derives from services and
    /// actions (`_Request`, `_Event`, `_FeedbackMessage`, …) are derived here too.
    pub fn schema(&self, type_name: &str) -> Option<String> {
        if self.prefixes.is_empty() {
            return None;
        }
        // The type itself must be installed: the bundle is asked afterwards.
        self.text(type_name)?;
        assemble::schema(type_name, &|name| self.text(name).or_else(|| bundled(name)))
    }

    /// One type's own text.
    fn text(&self, type_name: &str) -> Option<String> {
        let [package, kind, name] = type_name.split('/').collect::<Vec<_>>()[..] else {
            return None;
        };
        match kind {
            "msg" => self.read(package, "msg", name),
            "srv" => derived_of_service(package, name, &|service| {
                self.read(package, "srv", service).map(|text| sections(&text))
            }),
            "action" => derived_of_action(package, name, &|action| {
                self.read(package, "action", action).map(|text| sections(&text))
            }),
            _ => None,
        }
    }

    fn read(&self, package: &str, kind: &str, name: &str) -> Option<String> {
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !is_name(package) || !is_name(name) {
            return None;
        }
        self.prefixes.iter().find_map(|prefix| {
            let path = prefix.join(format!("share/{package}/{kind}/{name}.{kind}"));
            #[expect(clippy::disallowed_methods, reason = "a definition, not a recording")]
            let file = File::open(path).ok()?;
            let mut text = String::new();
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        })
    }
}

/// A bundled type's own text.
fn bundled(type_name: &str) -> Option<String> {
    let text = definitions::schema(type_name)?;
    Some(text.split("\n====").next().unwrap_or_default().to_owned())
}

/// The parts of a service's or action's file.
fn sections(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        match line.trim_end() {
            "---" => parts.push(String::new()),
            line => {
                if let Some(part) = parts.last_mut() {
                    part.push_str(line);
                    part.push('\n');
                }
            }
        }
    }
    parts
}

/// Gives the sections of a service or action by its name.
type SectionsOf<'a> = &'a dyn Fn(&str) -> Option<Vec<String>>;

/// What rosidl makes of a service: `_Request`, `_Response`, `_Event` (service introspection, REP-2012).
fn derived_of_service(package: &str, name: &str, sections_of: SectionsOf<'_>) -> Option<String> {
    let (service, suffix) = name.rsplit_once('_')?;
    let parts = sections_of(service)?;
    match suffix {
        "Request" => parts.first().cloned(),
        "Response" => parts.get(1).cloned(),
        "Event" => Some(event(&format!("{package}/srv/{service}"))),
        _ => None,
    }
}

fn event(service: &str) -> String {
    format!(
        "service_msgs/ServiceEventInfo info\n{service}_Request[<=1] request\n\
         {service}_Response[<=1] response\n"
    )
}

/// What rosidl makes of an action (design.ros2.org, "Actions").
fn derived_of_action(package: &str, name: &str, sections_of: SectionsOf<'_>) -> Option<String> {
    const GOAL_ID: &str = "unique_identifier_msgs/UUID goal_id\n";
    // The longer suffixes first: each also ends in a shorter one.
    const SUFFIXES: [&str; 10] = [
        "_FeedbackMessage",
        "_SendGoal_Request",
        "_SendGoal_Response",
        "_SendGoal_Event",
        "_GetResult_Request",
        "_GetResult_Response",
        "_GetResult_Event",
        "_Goal",
        "_Result",
        "_Feedback",
    ];
    let suffix = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix))?;
    let action = name.strip_suffix(suffix)?;
    let parts = sections_of(action)?;
    let full = format!("{package}/action/{action}");
    Some(match suffix {
        "_FeedbackMessage" => format!("{GOAL_ID}{full}_Feedback feedback\n"),
        "_SendGoal_Request" => format!("{GOAL_ID}{full}_Goal goal\n"),
        "_SendGoal_Response" => "bool accepted\nbuiltin_interfaces/Time stamp\n".to_owned(),
        "_SendGoal_Event" => event(&format!("{full}_SendGoal")),
        "_GetResult_Request" => GOAL_ID.to_owned(),
        "_GetResult_Response" => format!("int8 status\n{full}_Result result\n"),
        "_GetResult_Event" => event(&format!("{full}_GetResult")),
        "_Goal" => parts.first()?.clone(),
        "_Result" => parts.get(1)?.clone(),
        _ => parts.get(2)?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn install(files: &[(&str, &str)]) -> (tempfile::TempDir, Installed) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("share").join(name);
            #[expect(clippy::disallowed_methods, reason = "a test's files")]
            {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        let installed = Installed::in_folders([folder.path().to_owned()]);
        (folder, installed)
    }

    #[test]
    fn messages_services_and_actions_are_found() {
        let (_folder, installed) = install(&[
            ("my_msgs/msg/Thing.msg", "std_msgs/Header header\nPart[] parts # of it\n"),
            ("my_msgs/msg/Part.msg", "float64 x 1.0\n"),
            ("my_msgs/srv/Do.srv", "Thing thing\n---\nbool done\n"),
            ("my_msgs/action/Go.action", "int32 to\n---\nint32 at\n---\nfloat32 left\n"),
        ]);
        let names = |type_name: &str| {
            let text = installed.schema(type_name).unwrap();
            assert!(definitions::rihs01(type_name, &text).is_some(), "{type_name}: {text}");
            let names = text.lines().filter_map(|line| line.strip_prefix("MSG: "));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let thing = ["std_msgs/Header", "my_msgs/Part", "builtin_interfaces/Time"];
        assert_eq!(names("my_msgs/msg/Thing"), thing);
        assert!(names("my_msgs/srv/Do_Event").contains(&"my_msgs/srv/Do_Request".to_owned()));
        let feedback = ["unique_identifier_msgs/UUID", "my_msgs/action/Go_Feedback"];
        assert_eq!(names("my_msgs/action/Go_FeedbackMessage"), feedback);
        assert!(names("my_msgs/action/Go_SendGoal_Event").len() >= 5);
        for missing in
            ["my_msgs/msg/Other", "std_msgs/msg/String", "../msg/Thing", "my_msgs/srv/Do"]
        {
            assert_eq!(installed.schema(missing), None, "{missing}");
        }
    }

    #[test]
    fn a_definition_that_lacks_a_part_is_none() {
        let (_folder, installed) = install(&[("my_msgs/msg/Thing.msg", "other_msgs/Part part\n")]);
        assert_eq!(installed.schema("my_msgs/msg/Thing"), None);
    }
}
