//! Collective operations with a root. Ranks are numbered relative to the root, modulo the number of
//! ranks.

use super::{Algorithm, Call, Round, Take};

/// Distance to the parent in the binomial tree, which is the lowest bit that is set. The root gets a
/// distance that is out of range.
const fn to_parent(relative: u32, ranks: u32) -> u32 {
    if relative == 0 { ranks.next_power_of_two() } else { 1 << relative.trailing_zeros() }
}

/// Distances to the children in the binomial tree, in ascending order.
fn to_children(relative: u32, ranks: u32) -> impl DoubleEndedIterator<Item = u32> {
    let powers = (0..to_parent(relative, ranks).ilog2()).map(|digit| 1 << digit);
    powers.filter(move |distance| relative + distance < ranks)
}

pub(super) fn broadcast<E>(call: &Call<'_>, me: u32, bytes: u64, take: Take<'_, E>) -> Result<(), E> {
    let relative = call.back(me, call.root % call.ranks);
    match call.algorithm {
        Algorithm::Ring => {
            if relative > 0 {
                take(&Round::recv(call.back(me, 1), bytes))?;
            }
            if relative + 1 < call.ranks { take(&Round::send(call.ahead(me, 1), bytes)) } else { Ok(()) }
        }
        Algorithm::Linear => from_root(call, me, &|_| bytes, take),
        _ => {
            if relative > 0 {
                take(&Round::recv(call.back(me, to_parent(relative, call.ranks)), bytes))?;
            }
            for distance in to_children(relative, call.ranks).rev() {
                take(&Round::send(call.ahead(me, distance), bytes))?;
            }
            Ok(())
        }
    }
}

pub(super) fn reduce<E>(call: &Call<'_>, me: u32, bytes: u64, take: Take<'_, E>) -> Result<(), E> {
    if call.algorithm == Algorithm::Linear {
        return to_root(call, me, &|_| bytes, take);
    }
    to_parents(call, me, &|_, _| bytes, take)
}

pub(super) fn gather<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    if call.algorithm == Algorithm::Linear {
        return to_root(call, me, &|rank| call.block(rank), take);
    }
    to_parents(call, me, &|rank, subtree| call.blocks(rank, subtree), take)
}

pub(super) fn scatter<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    if call.algorithm == Algorithm::Linear {
        return from_root(call, me, &|rank| call.block(rank), take);
    }
    let relative = call.back(me, call.root);
    if relative > 0 {
        let distance = to_parent(relative, call.ranks);
        take(&Round::recv(call.back(me, distance), call.blocks(me, subtree(relative, distance, call))))?;
    }
    for distance in to_children(relative, call.ranks).rev() {
        let child = call.ahead(me, distance);
        take(&Round::send(child, call.blocks(child, subtree(relative + distance, distance, call))))?;
    }
    Ok(())
}

/// Number of ranks in the subtree of a rank that is `distance` away from its parent.
fn subtree(relative: u32, distance: u32, call: &Call<'_>) -> u32 {
    distance.min(call.ranks - relative)
}

/// Sends data up the binomial tree. `bytes` maps a rank and the size of its subtree to a number of
/// bytes.
fn to_parents<E>(
    call: &Call<'_>,
    me: u32,
    bytes: &dyn Fn(u32, u32) -> u64,
    take: Take<'_, E>,
) -> Result<(), E> {
    let relative = call.back(me, call.root % call.ranks);
    for distance in to_children(relative, call.ranks) {
        let child = call.ahead(me, distance);
        take(&Round::recv(child, bytes(child, subtree(relative + distance, distance, call))))?;
    }
    if relative == 0 {
        return Ok(());
    }
    let distance = to_parent(relative, call.ranks);
    take(&Round::send(call.back(me, distance), bytes(me, subtree(relative, distance, call))))
}

fn from_root<E>(call: &Call<'_>, me: u32, bytes: &dyn Fn(u32) -> u64, take: Take<'_, E>) -> Result<(), E> {
    if me != call.root {
        return take(&Round::recv(call.root, bytes(me)));
    }
    let others = (1..call.ranks).map(|step| call.ahead(me, step));
    take(&Round { sends: others.map(|rank| (rank, bytes(rank))).collect(), ..Round::default() })
}

fn to_root<E>(call: &Call<'_>, me: u32, bytes: &dyn Fn(u32) -> u64, take: Take<'_, E>) -> Result<(), E> {
    if me != call.root {
        return take(&Round::send(call.root, bytes(me)));
    }
    let others = (1..call.ranks).map(|step| call.ahead(me, step));
    take(&Round { recvs: others.map(|rank| (rank, bytes(rank))).collect(), ..Round::default() })
}
