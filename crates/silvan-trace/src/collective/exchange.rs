//! Collective operations without a root.

use super::{Algorithm, Call, Round, Sizes, Take, nvls, part, rooted, trees};

/// The distances 1, 2, 4, ... below `end`.
fn doubling(end: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |distance| distance.checked_mul(2)).take_while(move |&d| d < end)
}

pub(super) fn all_reduce<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let bytes = call.vector();
    match call.algorithm {
        Algorithm::Ring => {
            let chunk = |index: u32| part(bytes, u64::from(call.ranks), u64::from(index));
            // After the first ring, each rank has the complete chunk of the next rank, so the second ring starts with
            // that chunk.
            rings(call, &[0, 1], &chunk, me, take)
        }
        Algorithm::InNetwork => take(&Round::exchange(call.reducer(), bytes, call.reducer(), bytes)),
        Algorithm::Binomial => {
            rooted::reduce(call, me, bytes, take)?;
            rooted::broadcast(call, me, bytes, take)
        }
        Algorithm::DoubleTree => trees::all_reduce(call, me, take),
        Algorithm::Hierarchical => hierarchical(call, me, take),
        Algorithm::Nvls => nvls::all_reduce(call, me, take),
        Algorithm::RecursiveHalving => folded(call, me, bytes, take, &mut |own, pairs, partner, take| {
            halving_and_doubling(own, pairs, bytes, partner, take)
        }),
        _ => folded(call, me, bytes, take, &mut |own, pairs, partner, take| {
            for distance in doubling(pairs) {
                let other = partner(own ^ distance);
                take(&Round::exchange(other, bytes, other, bytes))?;
            }
            Ok(())
        }),
    }
}

/// All messages between the ranks of a host are sent at the same time.
fn hierarchical<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let each = if call.ranks.is_multiple_of(call.ranks_per_host) { call.ranks_per_host } else { 1 };
    let (first, own) = (me / each * each, me % each);
    let share = |index: u32| part(call.vector(), u64::from(each), u64::from(index));
    let others = || (1..each).map(|step| (own + step) % each);
    let mut given = Round::default();
    for other in others() {
        given.sends.push((first + other, share(other)));
        given.recvs.push((first + other, share(own)));
    }
    if each > 1 {
        take(&given)?;
    }
    let hosts = call.ranks / each;
    if hosts > 1 {
        let sizes = Sizes::Uniform(share(own));
        let ring = Call { algorithm: Algorithm::Ring, ranks: hosts, sizes, channels: 1, ..*call };
        all_reduce(&ring, me / each, &mut |round: &Round| {
            let named = |&(host, bytes): &(u32, u64)| (host * each + own, bytes);
            let [sends, recvs] = [&round.sends, &round.recvs].map(|list| list.iter().map(named).collect());
            take(&Round { sends, recvs, ..Round::default() })
        })?;
    }
    if each > 1 {
        std::mem::swap(&mut given.sends, &mut given.recvs);
        take(&given)?;
    }
    Ok(())
}

/// Runs the rings of all channels, each with its part of all chunks. The rings visit the hosts in the same order, but begin with
/// different ranks of a host, so that they enter and leave it by different ranks. In each of several passes, a rank first sends
/// the chunk of the rank that is a number of places ahead.
fn rings<E>(
    call: &Call<'_>,
    passes: &[u32],
    chunk: &dyn Fn(u32) -> u64,
    me: u32,
    take: Take<'_, E>,
) -> Result<(), E> {
    let each = if call.ranks.is_multiple_of(call.ranks_per_host) { call.ranks_per_host } else { 1 };
    let channels = u32::from(call.channels).clamp(1, each);
    for channel in 0..channels {
        let shift = channel * each / channels;
        let rank = |place: u32| place / each * each + (place % each + shift) % each;
        let place = me / each * each + (me % each + each - shift) % each;
        let of_channel = |place: u32| part(chunk(rank(place)), u64::from(channels), u64::from(channel));
        for &ahead in passes {
            ring(call, call.ahead(place, ahead), &of_channel, place, &mut |round: &Round| {
                let named = |&(place, bytes): &(u32, u64)| (rank(place), bytes);
                let [sends, recvs] =
                    [&round.sends, &round.recvs].map(|list| list.iter().map(named).collect());
                take(&Round { sends, recvs, stream: channel as u8, tag: channel as u8 })
            })?;
        }
    }
    Ok(())
}

/// Runs n - 1 rounds. A rank first sends chunk `first` to the right, and then in each round the chunk that
/// it received from the left.
fn ring<E>(
    call: &Call<'_>,
    first: u32,
    chunk: &dyn Fn(u32) -> u64,
    me: u32,
    take: Take<'_, E>,
) -> Result<(), E> {
    let (right, left) = (call.ahead(me, 1), call.back(me, 1));
    for step in 0..call.ranks - 1 {
        let sent = call.back(first, step);
        take(&Round::exchange(right, chunk(sent), left, chunk(call.back(sent, 1))))?;
    }
    Ok(())
}

type Inner<'i, E> = &'i mut dyn FnMut(u32, u32, &dyn Fn(u32) -> u32, Take<'_, E>) -> Result<(), E>;

/// Runs an algorithm for which the number of ranks must be a power of two. For each excess rank, a pair of
/// the first ranks combines its data before the algorithm, and shares the result afterwards. The even rank of
/// a pair does not take part in the algorithm.
fn folded<E>(call: &Call<'_>, me: u32, bytes: u64, take: Take<'_, E>, inner: Inner<'_, E>) -> Result<(), E> {
    let pairs = 1 << call.ranks.ilog2();
    let extra = call.ranks - pairs;
    let of_pair = me < 2 * extra;
    if of_pair && me.is_multiple_of(2) {
        take(&Round::send(me + 1, bytes))?;
        return take(&Round::recv(me + 1, bytes));
    }
    if of_pair {
        take(&Round::recv(me - 1, bytes))?;
    }
    let own = if of_pair { me / 2 } else { me - extra };
    let partner = |number: u32| if number < extra { 2 * number + 1 } else { number + extra };
    inner(own, pairs, &partner, take)?;
    if of_pair { take(&Round::send(me - 1, bytes)) } else { Ok(()) }
}

/// Rabenseifner's algorithm: half of the remaining data goes to the partner at half the distance. The
/// results then return in reverse order.
fn halving_and_doubling<E>(
    own: u32,
    pairs: u32,
    bytes: u64,
    partner: &dyn Fn(u32) -> u32,
    take: Take<'_, E>,
) -> Result<(), E> {
    let end = |chunk: u32| (u128::from(bytes) * u128::from(chunk) / u128::from(pairs)) as u64;
    let span = |from: u32, count: u32| end(from + count) - end(from);
    // For a given distance, the block of `distance` chunks that the rank keeps, and the block of its
    // partner.
    let halves = |distance: u32| {
        let kept = own / distance * distance;
        (span(kept, distance), span(kept ^ distance, distance), partner(own ^ distance))
    };
    let distances: Vec<u32> = doubling(pairs).collect();
    for &distance in distances.iter().rev() {
        let (kept, given, other) = halves(distance);
        take(&Round::exchange(other, given, other, kept))?;
    }
    for &distance in &distances {
        let (kept, given, other) = halves(distance);
        take(&Round::exchange(other, kept, other, given))?;
    }
    Ok(())
}

pub(super) fn all_gather<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    match call.algorithm {
        Algorithm::RecursiveDoubling => {
            for distance in doubling(call.ranks) {
                let (own, other) = (me / distance * distance, me ^ distance);
                let sent = call.blocks(own, distance);
                take(&Round::exchange(other, sent, other, call.blocks(own ^ distance, distance)))?;
            }
            Ok(())
        }
        Algorithm::Bruck => {
            for distance in doubling(call.ranks) {
                let count = distance.min(call.ranks - distance);
                let from = call.ahead(me, distance);
                let sent = call.blocks(me, count);
                take(&Round::exchange(call.back(me, distance), sent, from, call.blocks(from, count)))?;
            }
            Ok(())
        }
        Algorithm::Nvls => nvls::all_gather(call, me, take),
        Algorithm::Pat => {
            let distances: Vec<u32> = doubling(call.ranks).collect();
            for &distance in distances.iter().rev() {
                let (to, from) = (call.ahead(me, distance), call.back(me, distance));
                take(&Round::exchange(
                    to,
                    aggregated(call, me, distance),
                    from,
                    aggregated(call, from, distance),
                ))?;
            }
            Ok(())
        }
        _ => rings(call, &[0], &|rank| call.block(rank), me, take),
    }
}

/// The bytes that a rank sends over `distance` in [`Algorithm::Pat`]. Each block goes to all ranks along a binomial tree that
/// starts at its rank, over long distances first. Before this distance, the rank has the blocks of the ranks that are a
/// multiple of twice the distance before it, and passes on those that the next rank of the tree still needs.
fn aggregated(call: &Call<'_>, rank: u32, distance: u32) -> u64 {
    let distances = (0..call.ranks - distance).step_by(2 * distance as usize);
    super::sum(distances.map(|before| call.block(call.back(rank, before))))
}

pub(super) fn reduce_scatter<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    match call.algorithm {
        Algorithm::RecursiveHalving => {
            let distances: Vec<u32> = doubling(call.ranks).collect();
            for &distance in distances.iter().rev() {
                let (kept, other) = (me / distance * distance, me ^ distance);
                let given = call.blocks(kept ^ distance, distance);
                take(&Round::exchange(other, given, other, call.blocks(kept, distance)))?;
            }
            Ok(())
        }
        Algorithm::Ring => rings(call, &[call.ranks - 1], &|rank| call.block(rank), me, take),
        Algorithm::Nvls => nvls::reduce_scatter(call, me, take),
        // The all-gather backwards: each rank receives what it would send.
        Algorithm::Pat => {
            for distance in doubling(call.ranks) {
                let (to, from) = (call.back(me, distance), call.ahead(me, distance));
                take(&Round::exchange(
                    to,
                    aggregated(call, to, distance),
                    from,
                    aggregated(call, me, distance),
                ))?;
            }
            Ok(())
        }
        _ => {
            for step in 1..call.ranks {
                let to = call.ahead(me, step);
                take(&Round::exchange(to, call.block(to), call.back(me, step), call.block(me)))?;
            }
            Ok(())
        }
    }
}

pub(super) fn all_to_all<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let sent = |to: u32| call.block(to);
    let received = |from: u32| match call.sizes {
        Sizes::Matrix { recvs, .. } => recvs[from as usize],
        _ => call.block(me),
    };
    let partners = (1..call.ranks).map(|step| (call.ahead(me, step), call.back(me, step)));
    match call.algorithm {
        Algorithm::Linear => {
            let mut round = Round::default();
            for (to, from) in partners {
                round.sends.push((to, sent(to)));
                round.recvs.push((from, received(from)));
            }
            take(&round)
        }
        Algorithm::Bruck => {
            for distance in doubling(call.ranks) {
                // A block moves in the rounds whose bit is set in the distance that the block must travel.
                let count = (1..call.ranks).filter(|step| step & distance != 0).count() as u32;
                let bytes = call.block(me).saturating_mul(u64::from(count));
                let (to, from) = (call.ahead(me, distance), call.back(me, distance));
                take(&Round::exchange(to, bytes, from, bytes))?;
            }
            Ok(())
        }
        _ => {
            for (to, from) in partners {
                take(&Round::exchange(to, sent(to), from, received(from)))?;
            }
            Ok(())
        }
    }
}

pub(super) fn barrier<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    match call.algorithm {
        Algorithm::Dissemination => {
            for distance in doubling(call.ranks) {
                take(&Round::exchange(call.ahead(me, distance), 0, call.back(me, distance), 0))?;
            }
            Ok(())
        }
        _ => all_reduce(&Call { sizes: Sizes::Uniform(0), ..*call }, me, take),
    }
}

pub(super) fn scan<E>(call: &Call<'_>, me: u32, take: Take<'_, E>) -> Result<(), E> {
    let bytes = call.vector();
    if call.algorithm == Algorithm::Linear {
        if me > 0 {
            take(&Round::recv(me - 1, bytes))?;
        }
        return if me + 1 < call.ranks { take(&Round::send(me + 1, bytes)) } else { Ok(()) };
    }
    for distance in doubling(call.ranks) {
        let mut round = Round::default();
        if me + distance < call.ranks {
            round.sends.push((me + distance, bytes));
        }
        if me >= distance {
            round.recvs.push((me - distance, bytes));
        }
        take(&round)?;
    }
    Ok(())
}
