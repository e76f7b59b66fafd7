//! The adapter against a real server on loopback: what goes out, what comes back, and every bad
//! day.

#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod live;
#[cfg(test)]
mod origin;
#[cfg(test)]
mod speech;
#[cfg(test)]
mod support;
#[cfg(test)]
mod wire;
