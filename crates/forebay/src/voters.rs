//! The way from a command line to the voters.

use forebay_node::control::Control;
use forebay_node::{ControlConfig, Environment, Flags, Knob, RawConfig};

use crate::cli::ClusterArgs;
use crate::output::complain;

/// The voters that flags, environment or config file name.
pub(crate) fn control(args: ClusterArgs) -> anyhow::Result<Control> {
    let env = Environment::of_process();
    let file = RawConfig::of(args.config, &env)?;
    let flags =
        Flags::default().with(Knob::Voters, args.voters).with(Knob::SecretFile, args.secret_file);
    let config = ControlConfig::resolve(file, &env, &flags)?;
    for warning in &config.warnings {
        complain(&format!("warning: {warning}"));
    }
    Ok(Control::new(config))
}
