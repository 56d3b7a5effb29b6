# syntax=docker/dockerfile:1
# escape=`
ARG CUDA=12.4.1
FROM nvidia/cuda:${CUDA:-12.2.0}-runtime-ubuntu22.04 AS base
ENV NVIDIA_VISIBLE_DEVICES=all LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH
