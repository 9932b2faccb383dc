"""Units on the machines of a Ray cluster. Ray starts and ends processes there; the scheduler, retries and records stay here.

address         where the cluster is, and whether anything answers there
cluster         connects to Ray, and answers what the cluster has; the only module that imports `ray` on this side
resources       what one unit takes of a node
messages        what crosses between this machine and a host
unit_host       the actor on a node: runs units with the same pool and the same runner of programs as this machine does
host_tasks      what a host runs: units of a pool, programs
host_link       one host as seen from here: units, output, heartbeats, death
hosts           which host runs which unit; how many hosts there are, and how many more the cluster has room for
ray_pool        stands for a `ProcessPool` whose workers are on the nodes
ray_programs    stands for `run_program`, for programs on the nodes
left_out        what of the folder does not travel
paths           paths of this machine → paths on a node, for files that travel
"""
