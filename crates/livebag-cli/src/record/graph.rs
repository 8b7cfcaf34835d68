//! Which topics, services and actions of a ROS 2 network are recorded, and how.

use std::path::Path;
use std::time::Duration;

use livebag::{Clock, Selector};
use livebag_ros2::{FollowOptions, Installed, QosOverrides, Selection};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::values::wrong;
use crate::files;
use crate::outcome::CliError;

/// How long `--no-discovery` gives the graph to show itself.
const DISCOVERY: Duration = Duration::from_secs(2);

/// What `ros2 bag record` calls the same.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "ROS 2 topics (with --ros2)")]
pub struct GraphSettings {
    /// Also record streams of this machine, chosen by the same names and patterns.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub with_streams: bool,
    /// Record every topic, but no services and actions.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub all_topics: bool,
    /// Record the events of these services (those with introspection on).
    #[arg(long, value_name = "SERVICE", num_args = 1.., requires = "ros2", hide_short_help = true)]
    pub services: Vec<String>,
    /// Record the events of every service.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub all_services: bool,
    /// Leave out the events of these services.
    #[arg(long, value_name = "SERVICE", num_args = 1.., requires = "ros2", hide_short_help = true)]
    pub exclude_services: Vec<String>,
    /// Record feedback, status and events of these actions.
    #[arg(long, value_name = "ACTION", num_args = 1.., requires = "ros2", hide_short_help = true)]
    pub actions: Vec<String>,
    /// Record feedback, status and events of every action.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub all_actions: bool,
    /// Leave out these actions.
    #[arg(long, value_name = "ACTION", num_args = 1.., requires = "ros2", hide_short_help = true)]
    pub exclude_actions: Vec<String>,
    /// Leave out topics of these types.
    #[arg(long, value_name = "TYPE", num_args = 1.., requires = "ros2", hide_short_help = true)]
    pub exclude_topic_types: Vec<String>,
    /// Also record topics that have subscriptions but no publisher.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub include_unpublished_topics: bool,
    /// Also record hidden topics (a part of their name begins with `_`).
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub include_hidden_topics: bool,
    /// Record only topics that have a subscription.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub ignore_leaf_topics: bool,
    /// Record only topics that appear in the first two seconds.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub no_discovery: bool,
    /// Interval at which new topics are searched for, in milliseconds [default: 100]
    #[arg(long, value_name = "MS", requires = "ros2", hide_short_help = true)]
    pub polling_interval: Option<u64>,
    /// Take log times from /clock; nothing is recorded before its first message.
    #[arg(long, requires = "ros2", hide_short_help = true)]
    pub use_sim_time: bool,
    /// QoS of subscriptions by topic (YAML), instead of the publishers' QoS.
    #[arg(long, value_name = "FILE", requires = "ros2", hide_short_help = true)]
    pub qos_profile_overrides_path: Option<String>,
}

impl GraphSettings {
    /// Whether services, actions or topics are chosen here.
    pub fn chooses(&self) -> bool {
        self.all_topics
            || self.all_services
            || self.all_actions
            || !self.services.is_empty()
            || !self.actions.is_empty()
    }

    /// Pause between two looks.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.polling_interval.unwrap_or(100))
    }

    /// How the network is followed.
    ///
    /// # Errors
    /// If settings contradict each other, or the QoS overrides cannot be read.
    pub fn options(&self, settings: &Settings, clock: Clock) -> Result<FollowOptions, CliError> {
        if self.use_sim_time && self.no_discovery {
            return Err(wrong(
                "use-sim-time",
                "cannot be together with --no-discovery: /clock has to be discovered first",
            ));
        }
        let overrides = match &self.qos_profile_overrides_path {
            Some(path) => overrides(Path::new(path))?,
            None => QosOverrides::default(),
        };
        Ok(FollowOptions {
            selection: self.selection(settings)?,
            overrides,
            use_sim_time: self.use_sim_time,
            discover_for: self.no_discovery.then_some(DISCOVERY),
            installed: Installed::from_environment(),
            clock,
        })
    }

    fn selection(&self, settings: &Settings) -> Result<Selection, CliError> {
        let excluded = settings.exclude_regex.as_ref().map(|pattern| Selector::regex(pattern));
        let excluded = excluded.transpose().map_err(|error| CliError::usage(error.to_string()))?;
        let selectors = match settings.chooses_streams() {
            true => settings.selectors()?,
            false => Vec::new(),
        };
        Ok(Selection {
            selectors,
            excluded,
            all_topics: self.all_topics,
            all_services: self.all_services,
            services: absolute(&self.services),
            exclude_services: absolute(&self.exclude_services),
            all_actions: self.all_actions,
            actions: absolute(&self.actions),
            exclude_actions: absolute(&self.exclude_actions),
            exclude_topics: absolute(&settings.exclude_topics),
            exclude_topic_types: self.exclude_topic_types.clone(),
            include_hidden: self.include_hidden_topics,
            include_unpublished: self.include_unpublished_topics,
            ignore_leaf: self.ignore_leaf_topics,
        })
    }
}

/// Names as the graph has them: `imu` is `/imu`.
pub fn absolute(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("/{}", name.trim_start_matches('/'))).collect()
}

/// Reads QoS overrides.
///
/// # Errors
/// If the file cannot be read, or is not rosbag2's YAML.
pub fn overrides(path: &Path) -> Result<QosOverrides, CliError> {
    let text = files::text("reading the QoS overrides", path)?;
    QosOverrides::parse(&text)
        .map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}
