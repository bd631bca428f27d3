//! Client and server over real sockets, with services that do as the key says.

mod cost;
mod life;
mod news;
mod pool;
mod reads;
mod relays;
mod strangers;
mod world;
