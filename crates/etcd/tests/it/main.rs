//! Stores of both kinds under the same tests, and elections, against a real etcd.

mod elections;
mod site;
mod stores;
