//! Schedules through the crate's public face: tables of what each expression means, and a model
//! that was written without croner, jiff's zones or the code under test.

#[cfg(test)]
mod cron;
#[cfg(test)]
mod due;
#[cfg(test)]
mod life;
#[cfg(test)]
mod model;
#[cfg(test)]
mod simulated;
