-- Rows as schema 2 held them: two winners of one class, whose templates are 3 and 4, and what another program left behind when it
-- deleted winner 2 and template 5 with foreign keys off.
INSERT INTO problem_class VALUES(1, 'gemm', 'gemm a=f16 b=f16 c=f16 acc=f32 layout=nn align=16,16,16', 'm n k batch');
INSERT INTO device VALUES(1, 'cc9.0-sm132-l2_60-mem140-bus6144', 9, 0, 132, 60, 140, 6144);
INSERT INTO template VALUES(3, 'gemm/mma', '3f2a00ff');
INSERT INTO template VALUES(4, 'gemm/mma', '3f2a0100');
INSERT INTO winner VALUES(1, 1, 1, 4096, 4096, 2048, 1, 0, 0, 0, 0, 3, 'block_m=128 block_n=256 stages=3', 101.5, 101.0, 102.0, 100.0, 30,
    168, 0, 512, 0, 0, 210.5, 34567, '580.159.04', '13.0', 'NVIDIA H200', 'final-rounds-1 l2=cold data=normal', '0.1.0',
    '2026-11-01T10:00:00Z', 700);
INSERT INTO winner VALUES(3, 1, 1, 4096, 4096, 2048, 1, 0, 0, 0, 0, 5, 'block_m=128 block_n=256 stages=3', 99.5, 99.0, 102.0, 98.0, 30,
    168, 0, 512, 0, 0, 210.5, 34567, '580.159.04', '13.0', 'NVIDIA H200', 'final-rounds-1 l2=cold data=normal', '0.1.0',
    '2026-11-01T10:00:00Z', 700);
INSERT INTO evidence VALUES(1, 30, 'faster', 0.25, 1234, 80, 3, 40.5, 10.0, 5.0, 20.0, 'budget', 7, 1755, 690, 61, 4, 'crashed=1');
INSERT INTO evidence VALUES(2, 30, 'faster', 0.25, 1234, 80, 3, 40.5, 10.0, 5.0, 20.0, 'budget', 7, 1755, 690, 61, 4, 'crashed=1');
INSERT INTO evidence VALUES(3, 30, 'faster', 0.25, 1234, 80, 3, 40.5, 10.0, 5.0, 20.0, 'budget', 7, 1755, 690, 61, 4, 'crashed=1');
INSERT INTO finalist VALUES(1, 0, 'cublas', '', '', 104.0, 103.0, 105.0, 102.0, 30, 1.02, 1.01, 1.03, 0);
INSERT INTO finalist VALUES(2, 0, 'cublas', '', '', 104.0, 103.0, 105.0, 102.0, 30, 1.02, 1.01, 1.03, 0);
INSERT INTO trial VALUES(1, 1, 1, 4096, 4096, 2048, 1, 0, 0, 0, 0, 3, '13.0', 'block_m=128 block_n=256 stages=2', 'crashed', NULL, NULL,
    NULL, NULL, NULL, NULL, -1, 0, 0, 0, 0, 0.0, 0, 'error 719', '2026-11-01T10:00:00Z');
INSERT INTO miss VALUES(1, 1, 1, 4097, 4096, 2048, 1, 0, 0, 0, 0, '4097x4096x2048', '2026-11-01T10:00:00Z', 3);
