"""The runtime of the native backend: worker threads that run command lists without the interpreter lock.

The runtime is a small program of its own (``machine``, ``work``, ``jobs``, ``step_rows``, ``serving``, ``threads``) in
the syntax of Python and with the meaning of C, which ``words`` describes.  ``translation.runtime_text`` translates it
to LLVM text, and is imported only where that is compiled; the object is stored and loaded like a kernel.  Its Python
side:

    entries = Entries(loaded.addresses, loaded)     # once in the process
    pool = shared_pool(lambda: entries)             # or WorkerPool(entries, size=2, cpus=2)
    commands = CommandList([Kernel(function, frame, groups, grain, threads, scratch_bytes)], repeated, repetitions)
    job = pool.job(commands, group=session_group)
    outcome = pool.run(job)

Ways to run a job
    ``pool.run_short(job)``     on the calling thread, in one native call.  Nothing can stop it: for kernels that are
                                proved short.
    ``pool.run(job)``           waits.  The main thread leaves the work to the workers and stays interruptible;
                                another thread leads the run itself.
    ``pool.submit(job)``        returns at once.  ``job.done`` reads one word; ``pool.wait(job, timeout_s)``
                                waits; ``pool.call_when_done`` calls.  ``after=other`` orders two jobs.

After a run ``job.outcome`` says how it ended, ``job.executed`` how many commands had begun, ``job.trap`` and
``job.budget_lane`` which lane was to blame, and ``job.stop_reason`` who stopped it.  No outcome but ``OUT_OF_MEMORY``
raises: the caller knows the names of tags and the shape of the grid.  ``job.set_timeout(seconds)`` sets the stop flag
that late, ``job.stop()`` at once; ``group.close()`` stops every job of a session, those too that are begun later.

A job has one run at a time.  Memory that its commands name lives until the run has ended (``job.keep`` holds what
must).  A frame belongs to one run at a time, since word 3 of it gets the address of the run's control block.  A command
whose ``threads`` is 1 runs on one thread, in one call for all its groups; so must a kernel that is exclusive, unless
its table gives every thread copies of the buffers.

Threads
    A pool has as many workers as ``options.default_threads`` says: the lesser of the usable CPUs and the CPU quota.  A
    job with ``threads`` above that adds workers.  Workers sleep while nothing is to be done.  A thread spins for
    ``SPIN_NS`` before it sleeps, and only while no more threads are awake in the pool than there are CPUs.  Who spun
    for a job or for work in vain sleeps at once the next times (``may_spin``), twice as often after each failure up to
    ``MOST_SKIPPED``: the system may have put the thread that is waited for on the same CPU.  A run never waits for a
    worker that does not come: whoever leads it takes all the groups that nobody else takes.
    A fork has a pool without workers, which starts its own; jobs of its parent are refused there.  At the exit of the
    interpreter every run is stopped, and the threads are given ``LEAVE_S`` seconds to leave.

Rings
    ``Ring(pool, spec, code, group)`` is a queue of jobs of one program (``ring``, ``serving``): workers take them from
    memory one after the other, without Python between two.  A worker looks at the rings after the queue of jobs and
    before it helps a team; its runners are live jobs, so that closing a group and timeouts stop what runs in a ring.

Scratch belongs to threads and not to jobs.  It grows to what a command needs before the first command of a run, and a
worker that finds no memory for it does not help.
"""
