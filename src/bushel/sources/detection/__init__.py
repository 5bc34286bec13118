"""Images with boxes: COCO, Pascal VOC, YOLO and tables of boxes."""
