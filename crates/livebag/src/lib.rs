//! Record every sensor of a robot at full rate, and read any moment back while it is being written.
