//! The endpoint over a real socket, in front of an origin that is a map.

mod anonymous;
mod connections;
mod forwards;
mod reads;
mod tls;
mod world;
