//! What a chain costs fused and called, as the worker of a node finds out by itself: both in
//! turn on neighbouring packets, every few hundred microseconds.

use std::path::Path;
use std::time::{Duration, Instant};

use weft_node::show::FusedChoiceView;

use crate::trials::closed::{WARM_UP, spin};
use crate::{Burner, Composition, Failure, Rig, Setup};

/// How long a worker that always finds packets may take to choose.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether it has.
const WHILE: Duration = Duration::from_millis(20);

impl Rig {
    /// What the functions of a chain that can be fused cost a packet of `capture` fused and
    /// called, without the way to them and back, and how disturbed the trial was.
    ///
    /// # Errors
    /// When the node cannot be built, a function cannot be fused, or the worker does not choose.
    pub fn cost_in_turn(
        &self,
        setup: &Setup,
        capture: &Path,
        length: Duration,
    ) -> Result<(FusedChoiceView, f64), Failure> {
        let setup = setup.clone().composed(Composition::Fused).choosing();
        let mut composed = setup.compose(self, &self.endless(&[capture.to_owned()]))?;
        let core = self.cores.system;
        let mut run = |length: Duration| {
            let worker = &mut composed.node.workers()[0];
            self.on_core(core, || {
                spin(worker, &mut Burner::new(self.slow_down), length);
                Ok(())
            })?;
            let functions = composed.node.agent().snapshot().functions;
            let fused = functions.into_iter().find_map(|function| function.fused);
            Ok::<_, Failure>(fused.and_then(|fused| fused.workers.into_iter().next().flatten()))
        };
        let (slow, end) = (self.slowness()?, Instant::now() + PATIENCE);
        let mut chosen = run(length.mul_f64(WARM_UP))?;
        while chosen.is_none() && Instant::now() < end {
            chosen = run(WHILE)?;
        }
        let chosen = chosen.ok_or("the worker has not chosen between fused and called")?;
        Ok((chosen, slow.max(self.slowness()?)))
    }
}
